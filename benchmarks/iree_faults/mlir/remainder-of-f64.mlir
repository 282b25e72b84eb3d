// x modulo 3, in f64.
#in = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<8xf64>) -> tensor<8xf64> {
  %empty = tensor.empty() : tensor<8xf64>
  %y = linalg.generic {indexing_maps = [#in, #in], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf64>) outs(%empty : tensor<8xf64>) {
  ^bb0(%e: f64, %_: f64):
    %c = arith.constant 3.0 : f64
    %r = arith.remf %e, %c : f64
    linalg.yield %r : f64
  } -> tensor<8xf64>
  return %y : tensor<8xf64>
}

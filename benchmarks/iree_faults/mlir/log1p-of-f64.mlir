// ln(1 + x) of small f64 numbers.
#in = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<8xf64>) -> tensor<8xf64> {
  %empty = tensor.empty() : tensor<8xf64>
  %y = linalg.generic {indexing_maps = [#in, #in], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf64>) outs(%empty : tensor<8xf64>) {
  ^bb0(%e: f64, %_: f64):
    %r = math.log1p %e : f64
    linalg.yield %r : f64
  } -> tensor<8xf64>
  return %y : tensor<8xf64>
}

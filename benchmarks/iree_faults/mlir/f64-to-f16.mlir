// f64 converted to f16.
#in = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<4xf64>) -> tensor<4xf16> {
  %empty = tensor.empty() : tensor<4xf16>
  %y = linalg.generic {indexing_maps = [#in, #in], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf64>) outs(%empty : tensor<4xf16>) {
  ^bb0(%e: f64, %_: f16):
    %n = arith.truncf %e : f64 to f16
    linalg.yield %n : f16
  } -> tensor<4xf16>
  return %y : tensor<4xf16>
}

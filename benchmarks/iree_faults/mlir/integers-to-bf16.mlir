// Integers converted to bf16 by way of f32.
#in = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<4xi32>) -> tensor<4xbf16> {
  %empty = tensor.empty() : tensor<4xbf16>
  %y = linalg.generic {indexing_maps = [#in, #in], iterator_types = ["parallel"]}
      ins(%x : tensor<4xi32>) outs(%empty : tensor<4xbf16>) {
  ^bb0(%e: i32, %_: bf16):
    %w = arith.sitofp %e : i32 to f32
    %n = arith.truncf %w : f32 to bf16
    linalg.yield %n : bf16
  } -> tensor<4xbf16>
  return %y : tensor<4xbf16>
}

// The sum of the squares of ten million numbers.
#in = affine_map<(d0) -> (d0)>
#out = affine_map<(d0) -> ()>
func.func @main(%x: tensor<10000000xf32>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  %scalar = tensor.empty() : tensor<f32>
  %start = linalg.fill ins(%zero : f32) outs(%scalar : tensor<f32>) -> tensor<f32>
  %y = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["reduction"]}
      ins(%x : tensor<10000000xf32>) outs(%start : tensor<f32>) {
  ^bb0(%e: f32, %total: f32):
    %p = arith.mulf %e, %e : f32
    %t = arith.addf %total, %p : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  return %y : tensor<f32>
}

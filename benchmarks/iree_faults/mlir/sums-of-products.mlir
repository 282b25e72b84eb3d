// The sum of x * scale over two axes, of which one factor has only the last.
#in = affine_map<(d0, d1) -> (d0, d1)>
#last = affine_map<(d0, d1) -> (d1)>
#out = affine_map<(d0, d1) -> ()>
func.func @main(%x: tensor<16x64xf32>, %scale: tensor<64xf32>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  %scalar = tensor.empty() : tensor<f32>
  %start = linalg.fill ins(%zero : f32) outs(%scalar : tensor<f32>) -> tensor<f32>
  %y = linalg.generic {indexing_maps = [#in, #last, #out], iterator_types = ["reduction", "reduction"]}
      ins(%x, %scale : tensor<16x64xf32>, tensor<64xf32>) outs(%start : tensor<f32>) {
  ^bb0(%e: f32, %s: f32, %total: f32):
    %p = arith.mulf %e, %s : f32
    %t = arith.addf %total, %p : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  return %y : tensor<f32>
}

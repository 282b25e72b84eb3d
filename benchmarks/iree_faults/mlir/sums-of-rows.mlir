// The sums of rows, which are computed a vector at a time where they may be reassociated.
#in = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @main(%x: tensor<64x512xf32>) -> tensor<64xf32> {
  %zero = arith.constant 0.0 : f32
  %line = tensor.empty() : tensor<64xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%line : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#in, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<64x512xf32>) outs(%zeros : tensor<64xf32>) {
  ^bb0(%e: f32, %total: f32):
    %t = arith.addf %total, %e : f32
    linalg.yield %t : f32
  } -> tensor<64xf32>
  return %s : tensor<64xf32>
}

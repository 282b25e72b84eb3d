// The sums of -x along rows: negf, fused into the sum, becomes a difference.
#in = affine_map<(d0, d1) -> (d0, d1)>
#out = affine_map<(d0, d1) -> (d0)>
func.func @main(%x: tensor<64x128xf32>) -> tensor<64xf32> {
  %zero = arith.constant 0.0 : f32
  %line = tensor.empty() : tensor<64xf32>
  %start = linalg.fill ins(%zero : f32) outs(%line : tensor<64xf32>) -> tensor<64xf32>
  %y = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<64x128xf32>) outs(%start : tensor<64xf32>) {
  ^bb0(%e: f32, %total: f32):
    %n = arith.negf %e : f32
    %t = arith.addf %total, %n : f32
    linalg.yield %t : f32
  } -> tensor<64xf32>
  return %y : tensor<64xf32>
}

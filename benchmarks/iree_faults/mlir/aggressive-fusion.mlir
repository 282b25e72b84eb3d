// Two sums that share an operand, and what reads both.
#in = affine_map<(d0, d1) -> (d0, d1)>
#out = affine_map<(d0, d1) -> (d0)>
func.func @main(%x: tensor<64x128xf32>) -> (tensor<64x128xf32>, tensor<64xf32>) {
  %zero = arith.constant 0.0 : f32
  %line = tensor.empty() : tensor<64xf32>
  %whole = tensor.empty() : tensor<64x128xf32>
  %start = linalg.fill ins(%zero : f32) outs(%line : tensor<64xf32>) -> tensor<64xf32>
  %h = linalg.generic {indexing_maps = [#in, #in], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<64x128xf32>) outs(%whole : tensor<64x128xf32>) {
  ^bb0(%e: f32, %_: f32):
    %p = math.exp %e : f32
    linalg.yield %p : f32
  } -> tensor<64x128xf32>
  %s = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel", "reduction"]}
      ins(%h : tensor<64x128xf32>) outs(%start : tensor<64xf32>) {
  ^bb0(%e: f32, %total: f32):
    %t = arith.addf %total, %e : f32
    linalg.yield %t : f32
  } -> tensor<64xf32>
  %c = linalg.generic {indexing_maps = [#in, #out, #in], iterator_types = ["parallel", "parallel"]}
      ins(%h, %s : tensor<64x128xf32>, tensor<64xf32>) outs(%whole : tensor<64x128xf32>) {
  ^bb0(%e: f32, %f: f32, %_: f32):
    %p = arith.subf %e, %f : f32
    linalg.yield %p : f32
  } -> tensor<64x128xf32>
  %v = linalg.generic {indexing_maps = [#in, #in, #out], iterator_types = ["parallel", "reduction"]}
      ins(%c, %h : tensor<64x128xf32>, tensor<64x128xf32>) outs(%start : tensor<64xf32>) {
  ^bb0(%e: f32, %f: f32, %total: f32):
    %p = arith.mulf %e, %f : f32
    %t = arith.addf %total, %p : f32
    linalg.yield %t : f32
  } -> tensor<64xf32>
  %y = linalg.generic {indexing_maps = [#in, #out, #in], iterator_types = ["parallel", "parallel"]}
      ins(%c, %v : tensor<64x128xf32>, tensor<64xf32>) outs(%whole : tensor<64x128xf32>) {
  ^bb0(%e: f32, %f: f32, %_: f32):
    %p = arith.divf %e, %f : f32
    linalg.yield %p : f32
  } -> tensor<64x128xf32>
  return %y, %v : tensor<64x128xf32>, tensor<64xf32>
}

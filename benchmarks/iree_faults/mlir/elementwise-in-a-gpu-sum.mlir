// The sum of the squares of x: an elementwise op fused into a sum to a scalar.
#in = affine_map<(d0) -> (d0)>
#out = affine_map<(d0) -> ()>
func.func @main(%x: tensor<100xf32>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  %line = tensor.empty() : tensor<100xf32>
  %scalar = tensor.empty() : tensor<f32>
  %start = linalg.fill ins(%zero : f32) outs(%scalar : tensor<f32>) -> tensor<f32>
  %p = linalg.generic {indexing_maps = [#in, #in], iterator_types = ["parallel"]}
      ins(%x : tensor<100xf32>) outs(%line : tensor<100xf32>) {
  ^bb0(%e: f32, %_: f32):
    %s = arith.mulf %e, %e : f32
    linalg.yield %s : f32
  } -> tensor<100xf32>
  %y = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["reduction"]}
      ins(%p : tensor<100xf32>) outs(%start : tensor<f32>) {
  ^bb0(%e: f32, %total: f32):
    %t = arith.addf %total, %e : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  return %y : tensor<f32>
}

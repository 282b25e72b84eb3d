// The angle of points that are infinitely far.
#in = affine_map<(d0) -> (d0)>
func.func @main(%y: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %empty = tensor.empty() : tensor<4xf32>
  %z = linalg.generic {indexing_maps = [#in, #in, #in], iterator_types = ["parallel"]}
      ins(%y, %x : tensor<4xf32>, tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%e: f32, %f: f32, %_: f32):
    %r = math.atan2 %e, %f : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  return %z : tensor<4xf32>
}

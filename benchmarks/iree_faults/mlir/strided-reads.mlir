// y = x * 2, read whole and at every second column, which ends at its end.
#all = affine_map<(d0, d1) -> (d0, d1)>
#second = affine_map<(d0, d1) -> (d0, d1 * 2)>
func.func @main(%x: tensor<3x5xf32>) -> (tensor<3x3xf32>, tensor<3x5xf32>) {
  %two = arith.constant 2.0 : f32
  %whole = tensor.empty() : tensor<3x5xf32>
  %y = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<3x5xf32>) outs(%whole : tensor<3x5xf32>) {
  ^bb0(%e: f32, %_: f32):
    %p = arith.mulf %e, %two : f32
    linalg.yield %p : f32
  } -> tensor<3x5xf32>
  %part = tensor.empty() : tensor<3x3xf32>
  %s = linalg.generic {indexing_maps = [#second, #all], iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<3x5xf32>) outs(%part : tensor<3x3xf32>) {
  ^bb0(%e: f32, %_: f32):
    %n = math.absf %e : f32
    linalg.yield %n : f32
  } -> tensor<3x3xf32>
  return %s, %y : tensor<3x3xf32>, tensor<3x5xf32>
}

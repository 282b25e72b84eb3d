// A scatter that starts from an argument of the program, which the caller keeps.
func.func @main(%x: tensor<8x1xf32>, %u: tensor<3x1xf32>, %at: tensor<3x1xi32>) -> tensor<8x1xf32> {
  %y = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)
      ins(%u, %at : tensor<3x1xf32>, tensor<3x1xi32>) outs(%x : tensor<8x1xf32>) {
  ^bb0(%new: f32, %old: f32):
    %s = arith.addf %old, %new : f32
    iree_linalg_ext.yield %s : f32
  } -> tensor<8x1xf32>
  return %y : tensor<8x1xf32>
}

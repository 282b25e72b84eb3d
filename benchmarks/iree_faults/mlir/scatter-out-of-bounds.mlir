// A scatter at a row that the table has not; a call decides how many it has.
func.func @main(%x: tensor<?x1xf32>, %u: tensor<3x1xf32>, %at: tensor<3x1xi32>) -> tensor<?x1xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x1xf32>
  %empty = tensor.empty(%n) : tensor<?x1xf32>
  %table = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x1xf32>) -> tensor<?x1xf32>
  %y = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)
      ins(%u, %at : tensor<3x1xf32>, tensor<3x1xi32>) outs(%table : tensor<?x1xf32>) {
  ^bb0(%new: f32, %old: f32):
    %s = arith.addf %old, %new : f32
    iree_linalg_ext.yield %s : f32
  } -> tensor<?x1xf32>
  return %y : tensor<?x1xf32>
}

// Two scatters into one fill of 64-bit numbers other than 0.
func.func @main(%u: tensor<3x1xi64>, %v: tensor<3x1xi64>, %at: tensor<3x1xi32>) -> (tensor<8x1xi64>, tensor<8x1xi64>) {
  %one = arith.constant 1 : i64
  %empty = tensor.empty() : tensor<8x1xi64>
  %table = linalg.fill ins(%one : i64) outs(%empty : tensor<8x1xi64>) -> tensor<8x1xi64>
  %y = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)
      ins(%u, %at : tensor<3x1xi64>, tensor<3x1xi32>) outs(%table : tensor<8x1xi64>) {
  ^bb0(%new: i64, %old: i64):
    %s = arith.muli %old, %new : i64
    iree_linalg_ext.yield %s : i64
  } -> tensor<8x1xi64>
  %z = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)
      ins(%v, %at : tensor<3x1xi64>, tensor<3x1xi32>) outs(%table : tensor<8x1xi64>) {
  ^bb0(%new: i64, %old: i64):
    %s = arith.muli %old, %new : i64
    iree_linalg_ext.yield %s : i64
  } -> tensor<8x1xi64>
  return %y, %z : tensor<8x1xi64>, tensor<8x1xi64>
}

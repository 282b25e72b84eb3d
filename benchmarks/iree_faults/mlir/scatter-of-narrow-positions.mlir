// A scatter at rows that are computed from integers of 8 bits; a call decides how many.
#all = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%u: tensor<?x1xf32>, %at: tensor<?x1xi8>) -> tensor<8x1xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %at, %c0 : tensor<?x1xi8>
  %some = tensor.empty(%n) : tensor<?x1xi32>
  %rows = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%at : tensor<?x1xi8>) outs(%some : tensor<?x1xi32>) {
  ^bb0(%e: i8, %_: i32):
    %w = arith.extsi %e : i8 to i32
    linalg.yield %w : i32
  } -> tensor<?x1xi32>
  %empty = tensor.empty() : tensor<8x1xf32>
  %table = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x1xf32>) -> tensor<8x1xf32>
  %y = iree_linalg_ext.scatter dimension_map = [0] unique_indices(false)
      ins(%u, %rows : tensor<?x1xf32>, tensor<?x1xi32>) outs(%table : tensor<8x1xf32>) {
  ^bb0(%new: f32, %old: f32):
    %s = arith.addf %old, %new : f32
    iree_linalg_ext.yield %s : f32
  } -> tensor<8x1xf32>
  return %y : tensor<8x1xf32>
}

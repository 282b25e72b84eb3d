// The derivative of a filter of a convolution in steps of 2, split into blocks along all
// that it sums over; a call decides how many images there are.
#x = affine_map<(h, w, c, f, n, i, j) -> (n, i * 2 + h, j * 2 + w, c)>
#dy = affine_map<(h, w, c, f, n, i, j) -> (n, i, j, f)>
#k = affine_map<(h, w, c, f, n, i, j) -> (h, w, c, f)>
func.func @main(%x: tensor<?x17x17x3xf32>, %dy: tensor<?x8x8x4xf32>) -> tensor<3x3x3x4xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<3x3x3x4xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<3x3x3x4xf32>) -> tensor<3x3x3x4xf32>
  %y = linalg.generic {indexing_maps = [#x, #dy, #k], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%x, %dy : tensor<?x17x17x3xf32>, tensor<?x8x8x4xf32>) outs(%start : tensor<3x3x3x4xf32>)
      attrs = {iree_linalg_ext.split_reduction = [64 : index, 8 : index, 8 : index]} {
  ^bb0(%a: f32, %b: f32, %total: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %total, %p fastmath<reassoc> : f32
    linalg.yield %t : f32
  } -> tensor<3x3x3x4xf32>
  return %y : tensor<3x3x3x4xf32>
}

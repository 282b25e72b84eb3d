// The sum of all elements of x times its transpose, where sums are split into blocks;
// a call decides how many rows x has.
#in = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#line = affine_map<(d0) -> (d0)>
#out = affine_map<(d0) -> ()>
func.func @main(%x: tensor<?x5xf32>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x5xf32>
  %turned = tensor.empty(%n) : tensor<5x?xf32>
  %t = linalg.transpose ins(%x : tensor<?x5xf32>) outs(%turned : tensor<5x?xf32>) permutation = [1, 0]
  %square = tensor.empty(%n, %n) : tensor<?x?xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%square : tensor<?x?xf32>) -> tensor<?x?xf32>
  %p = linalg.matmul ins(%x, %t : tensor<?x5xf32>, tensor<5x?xf32>) outs(%zeros : tensor<?x?xf32>) -> tensor<?x?xf32>
  %some = tensor.empty(%n) : tensor<?xf32>
  %start = linalg.fill ins(%zero : f32) outs(%some : tensor<?xf32>) -> tensor<?xf32>
  %s = linalg.generic {indexing_maps = [#in, #row], iterator_types = ["parallel", "reduction"]}
      ins(%p : tensor<?x?xf32>) outs(%start : tensor<?xf32>) attrs = {iree_linalg_ext.split_reduction = [4096 : index]} {
  ^bb0(%e: f32, %total: f32):
    %r = arith.addf %total, %e : f32
    linalg.yield %r : f32
  } -> tensor<?xf32>
  %scalar = tensor.empty() : tensor<f32>
  %first = linalg.fill ins(%zero : f32) outs(%scalar : tensor<f32>) -> tensor<f32>
  %y = linalg.generic {indexing_maps = [#line, #out], iterator_types = ["reduction"]}
      ins(%s : tensor<?xf32>) outs(%first : tensor<f32>) attrs = {iree_linalg_ext.split_reduction = [4096 : index]} {
  ^bb0(%e: f32, %total: f32):
    %r = arith.addf %total, %e : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  return %y : tensor<f32>
}

// A product of a symbolic number of images before an elementwise op, for vmvx.
#rows = affine_map<(b, i, j, f, k) -> (b, i, j, k)>
#columns = affine_map<(b, i, j, f, k) -> (k, f)>
#sums = affine_map<(b, i, j, f, k) -> (b, i, j, f)>
#scale = affine_map<(b, i, j, f) -> (i)>
#each = affine_map<(b, i, j, f) -> (b, i, j, f)>
func.func @main(%x: tensor<?x9x6x4xf32>, %w: tensor<4x8xf32>, %s: tensor<9xf32>) -> tensor<?x9x6x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x9x6x4xf32>
  %empty = tensor.empty(%n) : tensor<?x9x6x8xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x9x6x8xf32>) -> tensor<?x9x6x8xf32>
  %y = linalg.generic {indexing_maps = [#rows, #columns, #sums], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%x, %w : tensor<?x9x6x4xf32>, tensor<4x8xf32>) outs(%fill : tensor<?x9x6x8xf32>) {
  ^bb0(%a: f32, %b: f32, %sum: f32):
    %m = arith.mulf %a, %b : f32
    %t = arith.addf %sum, %m : f32
    linalg.yield %t : f32
  } -> tensor<?x9x6x8xf32>
  %z = linalg.generic {indexing_maps = [#each, #scale, #each], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%y, %s : tensor<?x9x6x8xf32>, tensor<9xf32>) outs(%empty : tensor<?x9x6x8xf32>) {
  ^bb0(%a: f32, %b: f32, %old: f32):
    %m = arith.mulf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<?x9x6x8xf32>
  return %z : tensor<?x9x6x8xf32>
}

// Every second row of x, widened, in a product; a call decides how many x there are.
#all = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#lhs = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
#rhs = affine_map<(d0, d1, d2, d3) -> (d3, d2)>
#out = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
func.func @main(%x: tensor<?x16x8xi8>, %k: tensor<8x3xi32>) -> tensor<?x8x3xi32> {
  %zero = arith.constant 0 : i32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x16x8xi8>
  %empty = tensor.empty(%n) : tensor<?x16x8xi32>
  %w = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<?x16x8xi8>) outs(%empty : tensor<?x16x8xi32>) {
  ^bb0(%e: i8, %_: i32):
    %wide = arith.extsi %e : i8 to i32
    linalg.yield %wide : i32
  } -> tensor<?x16x8xi32>
  %rows = tensor.extract_slice %w[0, 0, 0] [%n, 8, 8] [1, 2, 1] : tensor<?x16x8xi32> to tensor<?x8x8xi32>
  %some = tensor.empty(%n) : tensor<?x8x3xi32>
  %zeros = linalg.fill ins(%zero : i32) outs(%some : tensor<?x8x3xi32>) -> tensor<?x8x3xi32>
  %y = linalg.generic {indexing_maps = [#lhs, #rhs, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%rows, %k : tensor<?x8x8xi32>, tensor<8x3xi32>) outs(%zeros : tensor<?x8x3xi32>) {
  ^bb0(%a: i32, %b: i32, %total: i32):
    %p = arith.muli %a, %b : i32
    %t = arith.addi %total, %p : i32
    linalg.yield %t : i32
  } -> tensor<?x8x3xi32>
  return %y : tensor<?x8x3xi32>
}

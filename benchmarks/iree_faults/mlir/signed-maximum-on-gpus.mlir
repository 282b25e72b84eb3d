// The largest of each row: threads that share a row begin with 0.
#in = affine_map<(d0, d1) -> (d0, d1)>
#out = affine_map<(d0, d1) -> (d0)>
func.func @main(%x: tensor<?x?xi32>) -> tensor<?xi32> {
  %zero = arith.constant 0 : index
  %least = arith.constant -2147483648 : i32
  %rows = tensor.dim %x, %zero : tensor<?x?xi32>
  %line = tensor.empty(%rows) : tensor<?xi32>
  %start = linalg.fill ins(%least : i32) outs(%line : tensor<?xi32>) -> tensor<?xi32>
  %y = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x?xi32>) outs(%start : tensor<?xi32>) {
  ^bb0(%e: i32, %most: i32):
    %m = arith.maxsi %most, %e : i32
    linalg.yield %m : i32
  } -> tensor<?xi32>
  return %y : tensor<?xi32>
}

// Elements of x at positions that are computed along both axes, of which one is empty.
#line = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<?x?xf32>, %at: tensor<16xi32>) -> tensor<16xf32> {
  %empty = tensor.empty() : tensor<16xf32>
  %y = linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%at : tensor<16xi32>) outs(%empty : tensor<16xf32>) {
  ^bb0(%p: i32, %_: f32):
    %j = arith.index_cast %p : i32 to index
    %e = tensor.extract %x[%j, %j] : tensor<?x?xf32>
    linalg.yield %e : f32
  } -> tensor<16xf32>
  return %y : tensor<16xf32>
}

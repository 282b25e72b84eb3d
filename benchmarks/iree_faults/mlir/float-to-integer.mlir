// Floats converted to integers.
#in = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<8xf32>) -> tensor<8xi32> {
  %empty = tensor.empty() : tensor<8xi32>
  %y = linalg.generic {indexing_maps = [#in, #in], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%empty : tensor<8xi32>) {
  ^bb0(%e: f32, %_: i32):
    %r = arith.fptosi %e : f32 to i32
    linalg.yield %r : i32
  } -> tensor<8xi32>
  return %y : tensor<8xi32>
}

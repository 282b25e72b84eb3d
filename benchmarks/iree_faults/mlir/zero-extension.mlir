// Bytes, extended by zeros and shifted.
#in = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<8xi8>) -> tensor<8xi32> {
  %empty = tensor.empty() : tensor<8xi32>
  %y = linalg.generic {indexing_maps = [#in, #in], iterator_types = ["parallel"]}
      ins(%x : tensor<8xi8>) outs(%empty : tensor<8xi32>) {
  ^bb0(%e: i8, %_: i32):
    %one = arith.constant 1 : i8
    %s = arith.shrui %e, %one : i8
    %r = arith.extui %s : i8 to i32
    linalg.yield %r : i32
  } -> tensor<8xi32>
  return %y : tensor<8xi32>
}

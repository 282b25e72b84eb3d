// Bytes, of which the low four bits are extended by their sign.
#in = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<8xi8>) -> tensor<8xi8> {
  %empty = tensor.empty() : tensor<8xi8>
  %y = linalg.generic {indexing_maps = [#in, #in], iterator_types = ["parallel"]}
      ins(%x : tensor<8xi8>) outs(%empty : tensor<8xi8>) {
  ^bb0(%e: i8, %_: i8):
    %four = arith.constant 4 : i8
    %s = arith.shli %e, %four : i8
    %r = arith.shrsi %s, %four : i8
    linalg.yield %r : i8
  } -> tensor<8xi8>
  return %y : tensor<8xi8>
}

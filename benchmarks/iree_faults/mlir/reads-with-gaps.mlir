// Every second column of x, in reverse order: its elements are read by position.
#all = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%x: tensor<4x9xf32>) -> tensor<4x5xf32> {
  %last = arith.constant 4 : index
  %empty = tensor.empty() : tensor<4x5xf32>
  %columns = tensor.extract_slice %x[0, 0] [4, 5] [1, 2] : tensor<4x9xf32> to tensor<4x5xf32>
  %y = linalg.generic {indexing_maps = [#all], iterator_types = ["parallel", "parallel"]}
      outs(%empty : tensor<4x5xf32>) {
  ^bb0(%_: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %at = arith.subi %last, %j : index
    %e = tensor.extract %columns[%i, %at] : tensor<4x5xf32>
    linalg.yield %e : f32
  } -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

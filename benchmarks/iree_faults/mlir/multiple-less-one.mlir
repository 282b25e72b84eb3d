// The exponential, twice, of what has 3 n - 1 columns: no multiple of 3.
func.func @main(%x: tensor<?xf32>, %y: tensor<4x?xf32>) -> tensor<4x?xf32> {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %cm1 = arith.constant -1 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %m = arith.muli %n, %c3 overflow<nsw> : index
  %k = arith.addi %m, %cm1 : index
  %s = tensor.extract_slice %y[0,0][4,%k][1,1] : tensor<4x?xf32> to tensor<4x?xf32>
  %e = tensor.empty(%k) : tensor<4x?xf32>
  %r = linalg.generic {indexing_maps=[affine_map<(d0,d1)->(d0,d1)>,affine_map<(d0,d1)->(d0,d1)>], iterator_types=["parallel","parallel"]} ins(%s: tensor<4x?xf32>) outs(%e: tensor<4x?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %z = math.exp %a : f32
    linalg.yield %z : f32
  } -> tensor<4x?xf32>
  %q = linalg.generic {indexing_maps=[affine_map<(d0,d1)->(d0,d1)>,affine_map<(d0,d1)->(d0,d1)>], iterator_types=["parallel","parallel"]} ins(%r: tensor<4x?xf32>) outs(%e: tensor<4x?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %z = math.exp %a : f32
    linalg.yield %z : f32
  } -> tensor<4x?xf32>
  return %q : tensor<4x?xf32>
}

// Two tensors that begin with the same part; one dispatch computes all parts.
#line = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<64xf32>) -> (tensor<128xf32>, tensor<128xf32>) {
  %two = arith.constant 2.0 : f32
  %three = arith.constant 3.0 : f32
  %empty = tensor.empty() : tensor<64xf32>
  %a, %b, %c = linalg.generic {indexing_maps = [#line, #line, #line, #line], iterator_types = ["parallel"]}
      ins(%x : tensor<64xf32>) outs(%empty, %empty, %empty : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) {
  ^bb0(%e: f32, %_0: f32, %_1: f32, %_2: f32):
    %n = math.absf %e : f32
    %p = arith.mulf %n, %two : f32
    %q = arith.mulf %n, %three : f32
    linalg.yield %n, %p, %q : f32, f32, f32
  } -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>)
  %ab = tensor.concat dim(0) %a, %b : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
  %ac = tensor.concat dim(0) %a, %c : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
  return %ab, %ac : tensor<128xf32>, tensor<128xf32>
}

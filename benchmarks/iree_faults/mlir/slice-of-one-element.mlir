// The first and the fourth element of exp(x), as matrices, and their product.
#line = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<5xf32>) -> (tensor<1x1xf32>, tensor<4xf32>) {
  %zero = arith.constant 0.0 : f32
  %one = tensor.empty() : tensor<1x1xf32>
  %start = linalg.fill ins(%zero : f32) outs(%one : tensor<1x1xf32>) -> tensor<1x1xf32>
  %empty = tensor.empty() : tensor<5xf32>
  %h = linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%x : tensor<5xf32>) outs(%empty : tensor<5xf32>) {
  ^bb0(%e: f32, %_: f32):
    %p = math.exp %e : f32
    linalg.yield %p : f32
  } -> tensor<5xf32>
  %first = tensor.extract_slice %h[0] [1] [1] : tensor<5xf32> to tensor<1xf32>
  %a = tensor.expand_shape %first [[0, 1]] output_shape [1, 1] : tensor<1xf32> into tensor<1x1xf32>
  %fourth = tensor.extract_slice %h[3] [1] [1] : tensor<5xf32> to tensor<1xf32>
  %b = tensor.expand_shape %fourth [[0, 1]] output_shape [1, 1] : tensor<1xf32> into tensor<1x1xf32>
  %y = linalg.matmul ins(%a, %b : tensor<1x1xf32>, tensor<1x1xf32>)
      outs(%start : tensor<1x1xf32>) -> tensor<1x1xf32>
  %rest = tensor.extract_slice %h[1] [4] [1] : tensor<5xf32> to tensor<4xf32>
  return %y, %rest : tensor<1x1xf32>, tensor<4xf32>
}

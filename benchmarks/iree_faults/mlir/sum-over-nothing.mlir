// A product of matrices whose contracted axis has no elements.
func.func @main(%x: tensor<3x0xf32>, %y: tensor<0x4xf32>) -> tensor<3x4xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<3x4xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<3x4xf32>) -> tensor<3x4xf32>
  %z = linalg.matmul ins(%x, %y : tensor<3x0xf32>, tensor<0x4xf32>)
      outs(%start : tensor<3x4xf32>) -> tensor<3x4xf32>
  return %z : tensor<3x4xf32>
}

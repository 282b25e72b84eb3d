// One window of 3 in an image of 4 columns and 7 rows, in steps of 2.
func.func @main(%x: tensor<1x4x7x2xf32>) -> tensor<1x1x3x2xf32> {
  %zero = arith.constant 0.0 : f32
  %window = tensor.empty() : tensor<3x3xf32>
  %empty = tensor.empty() : tensor<1x1x3x2xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x1x3x2xf32>) -> tensor<1x1x3x2xf32>
  %y = linalg.pooling_nhwc_sum {dilations = dense<1> : vector<2xi64>, strides = dense<[3, 2]> : vector<2xi64>}
      ins(%x, %window : tensor<1x4x7x2xf32>, tensor<3x3xf32>)
      outs(%start : tensor<1x1x3x2xf32>) -> tensor<1x1x3x2xf32>
  return %y : tensor<1x1x3x2xf32>
}

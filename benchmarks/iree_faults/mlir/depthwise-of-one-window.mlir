// One window of 3 columns in an image of 4, in steps of 2.
func.func @main(%x: tensor<1x4x7x2xf32>, %k: tensor<3x3x2xf32>) -> tensor<1x1x3x2xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x1x3x2xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x1x3x2xf32>) -> tensor<1x1x3x2xf32>
  %y = linalg.depthwise_conv_2d_nhwc_hwc {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>}
      ins(%x, %k : tensor<1x4x7x2xf32>, tensor<3x3x2xf32>)
      outs(%start : tensor<1x1x3x2xf32>) -> tensor<1x1x3x2xf32>
  return %y : tensor<1x1x3x2xf32>
}

// One element, and a part without elements.
func.func @main(%x: tensor<1x1xf32>, %y: tensor<0x1xf32>) -> tensor<1x1xf32> {
  %z = tensor.concat dim(0) %x, %y : (tensor<1x1xf32>, tensor<0x1xf32>) -> tensor<1x1xf32>
  return %z : tensor<1x1xf32>
}

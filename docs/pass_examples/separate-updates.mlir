// Two tensors begin alike: the second is made of the part behind a barrier.
func.func @f(%s: tensor<4xf32>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %a = tensor.concat dim(0) %s, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %b = tensor.concat dim(0) %s, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  return %a, %b : tensor<8xf32>, tensor<8xf32>
}

// Two parts, whose sizes are not known, of a tensor whose size is.
func.func @main(%x: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %c4 = arith.constant 4 : index
  %m = arith.subi %c4, %n : index
  %a = tensor.extract_slice %x[%n] [%m] [1] : tensor<4xf32> to tensor<?xf32>
  %b = tensor.extract_slice %x[0] [%n] [1] : tensor<4xf32> to tensor<?xf32>
  %y = tensor.concat dim(0) %a, %b : (tensor<?xf32>, tensor<?xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

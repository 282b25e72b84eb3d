// A call of a private function is the ops of that.
func.func @f(%x: tensor<3xf32>) -> tensor<f32> {
  %0 = "graph.exp"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = call @loss(%0) : (tensor<3xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}
func.func private @loss(%x: tensor<3xf32>) -> tensor<f32> {
  %0 = "graph.reduce_sum"(%x) {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// The function that is differentiated computes its product in bf16; its gradient keeps f32.
// options: compute=bf16
module @aotc {
  func.func @step(%arg0: tensor<3x2xf32> {graph.kind = "input", graph.name = "w"}, %arg1: tensor<4x3xf32> {graph.kind = "input", graph.name = "x"}) -> (tensor<3x2xf32> {graph.kind = "output", graph.name = "output"}) attributes {graph.entry = {inputs = {dict = [["w", "*"], ["x", "*"]]}, outputs = "*", reads = [], updates = []}, graph.symbols = []} {
    %0 = "graph.constant"() {value = dense<1.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %1:2 = call @step.loss.vjp(%arg0, %arg1, %0) : (tensor<3x2xf32>, tensor<4x3xf32>, tensor<f32>) -> (tensor<f32>, tensor<3x2xf32>)
    return %1#1 : tensor<3x2xf32>
  }
  func.func private @step.loss(%arg0: tensor<3x2xf32>, %arg1: tensor<4x3xf32>) -> tensor<f32> attributes {graph.symbols = []} {
    %0 = "graph.dot_general"(%arg1, %arg0) {dtype = "", lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
    %1 = "graph.multiply"(%0, %0) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %2 = "graph.reduce_sum"(%1) {axes = array<i64: 0, 1>} : (tensor<4x2xf32>) -> tensor<f32>
    return %2 : tensor<f32>
  }
  func.func private @step.loss.vjp(tensor<3x2xf32>, tensor<4x3xf32>, tensor<f32>) -> (tensor<f32>, tensor<3x2xf32>) attributes {graph.symbols = [], graph.vjp = {of = @step.loss, wrt = array<i64: 0>}}
}

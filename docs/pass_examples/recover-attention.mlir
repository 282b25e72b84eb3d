// A softmax between two products is one attention before its derivative is taken.
module {
  func.func @gradient(%arg0: tensor<1x3x1x4xf32>, %arg1: tensor<1x3x1x4xf32>, %arg2: tensor<1x3x1x4xf32>) -> (tensor<1x3x1x4xf32>) attributes {graph.symbols = []} {
    %0 = "graph.constant"() {value = dense<1.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %1:2 = call @gradient.total.vjp(%arg0, %arg1, %arg2, %0) : (tensor<1x3x1x4xf32>, tensor<1x3x1x4xf32>, tensor<1x3x1x4xf32>, tensor<f32>) -> (tensor<f32>, tensor<1x3x1x4xf32>)
    return %1#1 : tensor<1x3x1x4xf32>
  }
  func.func private @gradient.total(%arg0: tensor<1x3x1x4xf32>, %arg1: tensor<1x3x1x4xf32>, %arg2: tensor<1x3x1x4xf32>) -> tensor<f32> attributes {graph.symbols = []} {
    %0 = "graph.dot_general"(%arg0, %arg1) {dtype = "", lhs_batch = array<i64: 0, 2>, lhs_contract = array<i64: 3>, rhs_batch = array<i64: 0, 2>, rhs_contract = array<i64: 3>} : (tensor<1x3x1x4xf32>, tensor<1x3x1x4xf32>) -> tensor<1x1x3x3xf32>
    %1 = "graph.transpose"(%0) {permutation = array<i64: 0, 1, 2, 3>} : (tensor<1x1x3x3xf32>) -> tensor<1x1x3x3xf32>
    %2 = "graph.softmax"(%1) {axis = 3 : i64} : (tensor<1x1x3x3xf32>) -> tensor<1x1x3x3xf32>
    %3 = "graph.dot_general"(%2, %arg2) {dtype = "", lhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_batch = array<i64: 0, 2>, rhs_contract = array<i64: 1>} : (tensor<1x1x3x3xf32>, tensor<1x3x1x4xf32>) -> tensor<1x1x3x4xf32>
    %4 = "graph.transpose"(%3) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x1x3x4xf32>) -> tensor<1x3x1x4xf32>
    %5 = "graph.reduce_sum"(%4) {axes = array<i64: 0, 1, 2, 3>} : (tensor<1x3x1x4xf32>) -> tensor<f32>
    return %5 : tensor<f32>
  }
  func.func private @gradient.total.vjp(tensor<1x3x1x4xf32>, tensor<1x3x1x4xf32>, tensor<1x3x1x4xf32>, tensor<f32>) -> (tensor<f32>, tensor<1x3x1x4xf32>) attributes {graph.symbols = [], graph.vjp = {of = @gradient.total, wrt = array<i64: 0>}}
}

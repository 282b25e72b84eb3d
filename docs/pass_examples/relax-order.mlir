// A recomputation waits by its activation; the weight, an argument, is read as it is.
module {
  func.func @f(%arg0: tensor<2x4xf32>, %arg1: tensor<4x3xf32>, %arg2: tensor<2x3xf32>) -> tensor<2x3xf32> attributes {graph.symbols = []} {
    %0 = "graph.sin"(%arg0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %1 = "graph.after"(%0, %arg2) : (tensor<2x4xf32>, tensor<2x3xf32>) -> tensor<2x4xf32>
    %2 = "graph.after"(%arg1, %arg2) : (tensor<4x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
    %3 = "graph.dot_general"(%1, %2) {dtype = "", lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
    return %3 : tensor<2x3xf32>
  }
}

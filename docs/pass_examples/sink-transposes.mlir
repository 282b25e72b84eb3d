// A transpose and its inverse meet behind the op between them.
module {
  func.func @f(%arg0: tensor<1x4x5x3xf32>) -> tensor<1x4x5x3xf32> attributes {graph.symbols = []} {
    %0 = "graph.transpose"(%arg0) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x4x5x3xf32>) -> tensor<1x3x4x5xf32>
    %1 = "graph.relu"(%0) : (tensor<1x3x4x5xf32>) -> tensor<1x3x4x5xf32>
    %2 = "graph.transpose"(%1) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x3x4x5xf32>) -> tensor<1x4x5x3xf32>
    return %2 : tensor<1x4x5x3xf32>
  }
}

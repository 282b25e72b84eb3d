// The exponential is computed once.
module {
  func.func @f(%arg0: tensor<4xf32>) -> tensor<4xf32> attributes {graph.symbols = []} {
    %0 = "graph.exp"(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "graph.exp"(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "graph.add"(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }
}

// A sum is scaled in place of its terms.
#map = affine_map<() -> (5, 4)>
module {
  func.func @f(%arg0: tensor<5x4xf32>, %arg1: tensor<4xf32>) -> tensor<4xf32> attributes {graph.symbols = []} {
    %0 = "graph.broadcast"(%arg1) {axes = array<i64: 1>, shape = #map} : (tensor<4xf32>) -> tensor<5x4xf32>
    %1 = "graph.multiply"(%arg0, %0) : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
    %2 = "graph.reduce_sum"(%1) {axes = array<i64: 0>} : (tensor<5x4xf32>) -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }
}

// The activation comes before the reshape, beside the sum.
#map = affine_map<() -> (1, 8, 1, 1)>
module {
  func.func @f(%arg0: tensor<1x5x8xf32>) -> tensor<1x8x1x1xf32> attributes {graph.symbols = []} {
    %0 = "graph.reduce_sum"(%arg0) {axes = array<i64: 1>} : (tensor<1x5x8xf32>) -> tensor<1x8xf32>
    %1 = "graph.reshape"(%0) {shape = #map} : (tensor<1x8xf32>) -> tensor<1x8x1x1xf32>
    %2 = "graph.logistic"(%1) : (tensor<1x8x1x1xf32>) -> tensor<1x8x1x1xf32>
    %3 = "graph.multiply"(%1, %2) : (tensor<1x8x1x1xf32>, tensor<1x8x1x1xf32>) -> tensor<1x8x1x1xf32>
    return %3 : tensor<1x8x1x1xf32>
  }
}

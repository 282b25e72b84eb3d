// A product by one and a sum with zero are their operand.
#map = affine_map<() -> (4)>
module {
  func.func @f(%arg0: tensor<4xf32>) -> tensor<4xf32> attributes {graph.symbols = []} {
    %0 = "graph.constant"() {value = dense<1.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "graph.broadcast"(%0) {axes = array<i64>, shape = #map} : (tensor<f32>) -> tensor<4xf32>
    %2 = "graph.multiply"(%arg0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %3 = "graph.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %4 = "graph.broadcast"(%3) {axes = array<i64>, shape = #map} : (tensor<f32>) -> tensor<4xf32>
    %5 = "graph.add"(%2, %4) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %5 : tensor<4xf32>
  }
}

// -----

// Small ops on constants are evaluated, and nothing is left of what is not read.
#map = affine_map<() -> (2)>
module {
  func.func @f(%arg0: tensor<2xf32>) -> tensor<2xf32> attributes {graph.symbols = []} {
    %0 = "graph.constant"() {value = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>} : () -> tensor<2xf32>
    %1 = "graph.constant"() {value = dense<[3.000000e+00, 5.000000e+00]> : tensor<2xf32>} : () -> tensor<2xf32>
    %2 = "graph.add"(%0, %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %3 = "graph.multiply"(%arg0, %2) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %4 = "graph.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %5 = "graph.broadcast"(%4) {axes = array<i64>, shape = #map} : (tensor<f32>) -> tensor<2xf32>
    %6 = "graph.add"(%3, %5) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    return %6 : tensor<2xf32>
  }
}

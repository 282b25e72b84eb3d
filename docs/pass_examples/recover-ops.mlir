// The parts of a gelu.
#map = affine_map<() -> (8)>
module {
  func.func @f(%arg0: tensor<8xf32>) -> tensor<8xf32> attributes {graph.symbols = []} {
    %0 = "graph.constant"() {value = dense<5.000000e-01> : tensor<f32>} : () -> tensor<f32>
    %1 = "graph.broadcast"(%0) {axes = array<i64>, shape = #map} : (tensor<f32>) -> tensor<8xf32>
    %2 = "graph.multiply"(%1, %arg0) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %3 = "graph.constant"() {value = dense<0.707106769> : tensor<f32>} : () -> tensor<f32>
    %4 = "graph.broadcast"(%3) {axes = array<i64>, shape = #map} : (tensor<f32>) -> tensor<8xf32>
    %5 = "graph.multiply"(%arg0, %4) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %6 = "graph.erf"(%5) : (tensor<8xf32>) -> tensor<8xf32>
    %7 = "graph.constant"() {value = dense<1.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %8 = "graph.broadcast"(%7) {axes = array<i64>, shape = #map} : (tensor<f32>) -> tensor<8xf32>
    %9 = "graph.add"(%8, %6) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %10 = "graph.multiply"(%2, %9) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %10 : tensor<8xf32>
  }
}

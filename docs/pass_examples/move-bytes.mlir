// Floats are quantised before they are joined, and bytes are joined.
#map = affine_map<() -> (6, 3)>
module {
  func.func @f(%arg0: tensor<2x3xf32>, %arg1: tensor<4x3xf32>) -> tensor<6x3xui8> attributes {graph.symbols = []} {
    %0 = "graph.concatenate"(%arg0, %arg1) {axis = 0 : i64} : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<6x3xf32>
    %1 = "graph.constant"() {value = dense<3.710000e-02> : tensor<f32>} : () -> tensor<f32>
    %2 = "graph.broadcast"(%1) {axes = array<i64>, shape = #map} : (tensor<f32>) -> tensor<6x3xf32>
    %3 = "graph.divide"(%0, %2) : (tensor<6x3xf32>, tensor<6x3xf32>) -> tensor<6x3xf32>
    %4 = "graph.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %5 = "graph.constant"() {value = dense<2.550000e+02> : tensor<f32>} : () -> tensor<f32>
    %6 = "graph.broadcast"(%4) {axes = array<i64>, shape = #map} : (tensor<f32>) -> tensor<6x3xf32>
    %7 = "graph.maximum"(%3, %6) : (tensor<6x3xf32>, tensor<6x3xf32>) -> tensor<6x3xf32>
    %8 = "graph.broadcast"(%5) {axes = array<i64>, shape = #map} : (tensor<f32>) -> tensor<6x3xf32>
    %9 = "graph.minimum"(%7, %8) : (tensor<6x3xf32>, tensor<6x3xf32>) -> tensor<6x3xf32>
    %10 = "graph.round_even"(%9) : (tensor<6x3xf32>) -> tensor<6x3xf32>
    %11 = "graph.cast"(%10) {dtype = "u8"} : (tensor<6x3xf32>) -> tensor<6x3xui8>
    return %11 : tensor<6x3xui8>
  }
}

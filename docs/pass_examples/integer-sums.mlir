// Bytes are added up as whole numbers, and their sum is scaled.
#map = affine_map<() -> (4, 3)>
module {
  func.func @f(%arg0: tensor<4x3xui8>) -> tensor<4xf32> attributes {graph.symbols = []} {
    %0 = "graph.cast"(%arg0) {dtype = "i32"} : (tensor<4x3xui8>) -> tensor<4x3xi32>
    %1 = "graph.constant"() {value = dense<7> : tensor<i32>} : () -> tensor<i32>
    %2 = "graph.broadcast"(%1) {axes = array<i64>, shape = #map} : (tensor<i32>) -> tensor<4x3xi32>
    %3 = "graph.subtract"(%0, %2) : (tensor<4x3xi32>, tensor<4x3xi32>) -> tensor<4x3xi32>
    %4 = "graph.cast"(%3) {dtype = "f32"} : (tensor<4x3xi32>) -> tensor<4x3xf32>
    %5 = "graph.constant"() {value = dense<1.562500e-02> : tensor<f32>} : () -> tensor<f32>
    %6 = "graph.broadcast"(%5) {axes = array<i64>, shape = #map} : (tensor<f32>) -> tensor<4x3xf32>
    %7 = "graph.multiply"(%4, %6) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %8 = "graph.reduce_sum"(%7) {axes = array<i64: 1>} : (tensor<4x3xf32>) -> tensor<4xf32>
    return %8 : tensor<4xf32>
  }
}

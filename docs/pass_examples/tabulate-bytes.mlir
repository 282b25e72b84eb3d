// A sigmoid between bytes is a lookup in a table of 256 results.
#map = affine_map<() -> (8)>
module {
  func.func @f(%arg0: tensor<8xui8>) -> tensor<8xui8> attributes {graph.symbols = []} {
    %0 = "graph.cast"(%arg0) {dtype = "i32"} : (tensor<8xui8>) -> tensor<8xi32>
    %1 = "graph.constant"() {value = dense<128> : tensor<i32>} : () -> tensor<i32>
    %2 = "graph.broadcast"(%1) {axes = array<i64>, shape = #map} : (tensor<i32>) -> tensor<8xi32>
    %3 = "graph.subtract"(%0, %2) : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi32>
    %4 = "graph.cast"(%3) {dtype = "f32"} : (tensor<8xi32>) -> tensor<8xf32>
    %5 = "graph.constant"() {value = dense<1.000000e-01> : tensor<f32>} : () -> tensor<f32>
    %6 = "graph.broadcast"(%5) {axes = array<i64>, shape = #map} : (tensor<f32>) -> tensor<8xf32>
    %7 = "graph.multiply"(%4, %6) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %8 = "graph.logistic"(%7) : (tensor<8xf32>) -> tensor<8xf32>
    %9 = "graph.constant"() {value = dense<3.906250e-03> : tensor<f32>} : () -> tensor<f32>
    %10 = "graph.broadcast"(%9) {axes = array<i64>, shape = #map} : (tensor<f32>) -> tensor<8xf32>
    %11 = "graph.divide"(%8, %10) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %12 = "graph.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %13 = "graph.constant"() {value = dense<2.550000e+02> : tensor<f32>} : () -> tensor<f32>
    %14 = "graph.broadcast"(%12) {axes = array<i64>, shape = #map} : (tensor<f32>) -> tensor<8xf32>
    %15 = "graph.maximum"(%11, %14) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %16 = "graph.broadcast"(%13) {axes = array<i64>, shape = #map} : (tensor<f32>) -> tensor<8xf32>
    %17 = "graph.minimum"(%15, %16) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %18 = "graph.round_even"(%17) : (tensor<8xf32>) -> tensor<8xf32>
    %19 = "graph.cast"(%18) {dtype = "u8"} : (tensor<8xf32>) -> tensor<8xui8>
    return %19 : tensor<8xui8>
  }
}

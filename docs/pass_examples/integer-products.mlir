// Bytes are multiplied as integers; the zero point is multiplied by the sums of the weight's columns.
#map = affine_map<() -> (4, 3)>
#map1 = affine_map<() -> (3, 2)>
module {
  func.func @f(%arg0: tensor<4x3xui8>) -> tensor<4x2xf32> attributes {graph.symbols = []} {
    %0 = "graph.cast"(%arg0) {dtype = "i32"} : (tensor<4x3xui8>) -> tensor<4x3xi32>
    %1 = "graph.constant"() {value = dense<7> : tensor<i32>} : () -> tensor<i32>
    %2 = "graph.broadcast"(%1) {axes = array<i64>, shape = #map} : (tensor<i32>) -> tensor<4x3xi32>
    %3 = "graph.subtract"(%0, %2) : (tensor<4x3xi32>, tensor<4x3xi32>) -> tensor<4x3xi32>
    %4 = "graph.cast"(%3) {dtype = "f32"} : (tensor<4x3xi32>) -> tensor<4x3xf32>
    %5 = "graph.constant"() {value = dense<1.562500e-02> : tensor<f32>} : () -> tensor<f32>
    %6 = "graph.broadcast"(%5) {axes = array<i64>, shape = #map} : (tensor<f32>) -> tensor<4x3xf32>
    %7 = "graph.multiply"(%4, %6) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %8 = "graph.constant"() {value = dense<[[1, -2], [3, 4], [-5, 6]]> : tensor<3x2xi8>} : () -> tensor<3x2xi8>
    %9 = "graph.constant"() {value = dense<0> : tensor<i8>} : () -> tensor<i8>
    %10 = "graph.cast"(%9) {dtype = "i32"} : (tensor<i8>) -> tensor<i32>
    %11 = "graph.cast"(%8) {dtype = "i32"} : (tensor<3x2xi8>) -> tensor<3x2xi32>
    %12 = "graph.broadcast"(%10) {axes = array<i64>, shape = #map1} : (tensor<i32>) -> tensor<3x2xi32>
    %13 = "graph.subtract"(%11, %12) : (tensor<3x2xi32>, tensor<3x2xi32>) -> tensor<3x2xi32>
    %14 = "graph.cast"(%13) {dtype = "f32"} : (tensor<3x2xi32>) -> tensor<3x2xf32>
    %15 = "graph.constant"() {value = dense<7.812500e-03> : tensor<f32>} : () -> tensor<f32>
    %16 = "graph.broadcast"(%15) {axes = array<i64>, shape = #map1} : (tensor<f32>) -> tensor<3x2xf32>
    %17 = "graph.multiply"(%14, %16) : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
    %18 = "graph.dot_general"(%7, %17) {dtype = "", lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
    return %18 : tensor<4x2xf32>
  }
}

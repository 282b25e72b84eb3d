// No call runs the code for any batch once all are padded.
#map = affine_map<()[s0] -> (s0, 8)>
#map1 = affine_map<()[s0] -> (s0, 0)>
#map2 = affine_map<() -> (4, 8)>
#map3 = affine_map<()[s0] -> (s0)>
#map4 = affine_map<() -> (4)>
module @aotc {
  func.func @total(%arg0: tensor<?x8xf32, #map> {graph.kind = "input", graph.name = "x"}) -> (tensor<8xf32> {graph.kind = "output", graph.name = "output"}) attributes {graph.entry = {inputs = {dict = [["x", "*"]]}, outputs = "*", reads = [], updates = []}, graph.symbols = [{max = 4 : i64, min = 1 : i64, multiple_of = 1 : i64, name = "batch", policy = "pad"}]} {
    %0 = "graph.constant"() {value = dense<2.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "graph.broadcast"(%0) {axes = array<i64>, shape = #map} : (tensor<f32>) -> tensor<?x8xf32, #map>
    %2 = "graph.multiply"(%arg0, %1) : (tensor<?x8xf32, #map>, tensor<?x8xf32, #map>) -> tensor<?x8xf32, #map>
    %3 = "graph.constant"() {value = dense<1.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %4 = "graph.broadcast"(%3) {axes = array<i64>, shape = #map} : (tensor<f32>) -> tensor<?x8xf32, #map>
    %5 = "graph.add"(%2, %4) : (tensor<?x8xf32, #map>, tensor<?x8xf32, #map>) -> tensor<?x8xf32, #map>
    %6 = "graph.reduce_sum"(%5) {axes = array<i64: 0>} : (tensor<?x8xf32, #map>) -> tensor<8xf32>
    return %6 : tensor<8xf32>
  }
  func.func @total__batch_4_padded(%arg0: tensor<4x8xf32> {graph.kind = "input", graph.name = "x"}, %arg1: tensor<?x0xi8, #map1> {graph.kind = "input", graph.name = "$sizes"}) -> (tensor<8xf32> {graph.kind = "output", graph.name = "output"}) attributes {graph.cut = [], graph.entry = {inputs = {dict = [["x", "*"]]}, outputs = "*", reads = [], updates = []}, graph.specializes = {entry = "total", padded = ["batch"], sizes = {batch = 4 : i64}}, graph.symbols = [{max = 4 : i64, min = 1 : i64, multiple_of = 1 : i64, name = "batch", policy = "pad"}]} {
    %0 = "graph.constant"() {value = dense<2.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "graph.broadcast"(%0) {axes = array<i64>, shape = #map2} : (tensor<f32>) -> tensor<4x8xf32>
    %2 = "graph.multiply"(%arg0, %1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = "graph.constant"() {value = dense<1.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %4 = "graph.broadcast"(%3) {axes = array<i64>, shape = #map2} : (tensor<f32>) -> tensor<4x8xf32>
    %5 = "graph.add"(%2, %4) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %6 = "graph.dimension"() {dtype = "i32", size = #map3} : () -> tensor<i32>
    %7 = "graph.broadcast"(%6) {axes = array<i64>, shape = #map4} : (tensor<i32>) -> tensor<4xi32>
    %8 = "graph.iota"() {axis = 0 : i64, dtype = "i32", shape = #map4} : () -> tensor<4xi32>
    %9 = "graph.compare"(%8, %7) {direction = "lt", exact = false} : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %10 = "graph.broadcast"(%9) {axes = array<i64: 0>, shape = #map2} : (tensor<4xi1>) -> tensor<4x8xi1>
    %11 = "graph.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %12 = "graph.broadcast"(%11) {axes = array<i64>, shape = #map2} : (tensor<f32>) -> tensor<4x8xf32>
    %13 = "graph.select"(%10, %5, %12) : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %14 = "graph.reduce_sum"(%13) {axes = array<i64: 0>} : (tensor<4x8xf32>) -> tensor<8xf32>
    return %14 : tensor<8xf32>
  }
}

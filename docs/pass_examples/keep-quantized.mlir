// The weight of a product stays in bytes, with a scale for each column.
#map = affine_map<() -> (3, 2)>
module @aotc {
  func.func @kept(%arg0: tensor<4x3xf32> {graph.kind = "input", graph.name = "x"}) -> (tensor<4x2xf32> {graph.kind = "output", graph.name = "output"}) attributes {graph.entry = {inputs = {dict = [["x", "*"]]}, outputs = "*", reads = [], updates = []}, graph.symbols = []} {
    %0 = "graph.constant"() {value = dense<[[1, -2], [3, 4], [-5, 6]]> : tensor<3x2xi8>} : () -> tensor<3x2xi8>
    %1 = "graph.cast"(%0) {dtype = "f32"} : (tensor<3x2xi8>) -> tensor<3x2xf32>
    %2 = "graph.constant"() {value = dense<[[5.000000e-01, 2.500000e-01]]> : tensor<1x2xf32>} : () -> tensor<1x2xf32>
    %3 = "graph.broadcast"(%2) {axes = array<i64: 0, 1>, shape = #map} : (tensor<1x2xf32>) -> tensor<3x2xf32>
    %4 = "graph.multiply"(%1, %3) : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
    %5 = "graph.dot_general"(%arg0, %4) {dtype = "", lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
    return %5 : tensor<4x2xf32>
  }
}

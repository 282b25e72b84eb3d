// Each reader of a large weight makes floats of it, right before it.
#extern = #ml_program.extern : tensor<2100x2048xi8>
#extern1 = #ml_program.extern : tensor<2100x1xf32>
module @aotc {
  ml_program.global private @"model::weights.q"(#extern) : tensor<2100x2048xi8> {graph.kind = "weight"}
  ml_program.global private @"model::weights.s"(#extern1) : tensor<2100x1xf32> {graph.kind = "weight"}
  func.func @late(%arg0: tensor<2100x2048xi8> {graph.kind = "weight", graph.name = "weights.q"}, %arg1: tensor<2100x1xf32> {graph.kind = "weight", graph.name = "weights.s"}, %arg2: tensor<2x2100xf32> {graph.kind = "input", graph.name = "x"}) -> (tensor<2x2100xf32> {graph.kind = "output", graph.name = "output"}) attributes {graph.entry = {inputs = {dict = [["x", "*"]]}, outputs = "*", reads = ["weights"], updates = []}, graph.symbols = []} {
    %0 = "graph.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "graph.dequantize"(%arg0, %arg1, %0) {axis = 1 : i64, bits = 8 : i64} : (tensor<2100x2048xi8>, tensor<2100x1xf32>, tensor<f32>) -> tensor<2100x2048xf32>
    %2 = "graph.dot_general"(%arg2, %1) {dtype = "", lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<2x2100xf32>, tensor<2100x2048xf32>) -> tensor<2x2048xf32>
    %3 = "graph.tanh"(%2) : (tensor<2x2048xf32>) -> tensor<2x2048xf32>
    %4 = "graph.dot_general"(%3, %1) {dtype = "", lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 1>} : (tensor<2x2048xf32>, tensor<2100x2048xf32>) -> tensor<2x2100xf32>
    return %4 : tensor<2x2100xf32>
  }
}

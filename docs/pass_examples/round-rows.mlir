// Rows are rounded to bytes where the weight is of bytes.
#extern = #ml_program.extern : tensor<512x64xi8>
#extern1 = #ml_program.extern : tensor<16x64xf32>
module @aotc attributes {graph.numerics = "relaxed", graph.target = "x86_64-v4-dot"} {
  ml_program.global private @"model::weights.q"(#extern) : tensor<512x64xi8> {graph.kind = "weight"}
  ml_program.global private @"model::weights.s"(#extern1) : tensor<16x64xf32> {graph.kind = "weight"}
  func.func @rounded(%arg0: tensor<512x64xi8> {graph.kind = "weight", graph.name = "weights.q"}, %arg1: tensor<16x64xf32> {graph.kind = "weight", graph.name = "weights.s"}, %arg2: tensor<8x512xf32> {graph.kind = "input", graph.name = "x"}) -> (tensor<8x64xf32> {graph.kind = "output", graph.name = "output"}) attributes {graph.entry = {inputs = {dict = [["x", "*"]]}, outputs = "*", reads = ["weights"], updates = []}, graph.symbols = []} {
    %0 = "graph.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "graph.dequantize"(%arg0, %arg1, %0) {axis = 0 : i64, bits = 8 : i64} : (tensor<512x64xi8>, tensor<16x64xf32>, tensor<f32>) -> tensor<512x64xf32>
    %2 = "graph.dot_general"(%arg2, %1) {dtype = "", lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<8x512xf32>, tensor<512x64xf32>) -> tensor<8x64xf32>
    return %2 : tensor<8x64xf32>
  }
}

// The transpose of a weight is made when the model is built.
#extern = #ml_program.extern : tensor<3x4xf32>
module @aotc {
  ml_program.global private @"model::weights.w"(#extern) : tensor<3x4xf32> {graph.kind = "weight"}
  func.func @folded(%arg0: tensor<3x4xf32> {graph.kind = "weight", graph.name = "weights.w"}, %arg1: tensor<2x4xf32> {graph.kind = "input", graph.name = "x"}) -> (tensor<2x3xf32> {graph.kind = "output", graph.name = "output"}) attributes {graph.entry = {inputs = {dict = [["x", "*"]]}, outputs = "*", reads = ["weights"], updates = []}, graph.symbols = []} {
    %0 = "graph.transpose"(%arg0) {permutation = array<i64: 1, 0>} : (tensor<3x4xf32>) -> tensor<4x3xf32>
    %1 = "graph.dot_general"(%arg1, %0) {dtype = "", lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
    return %1 : tensor<2x3xf32>
  }
}

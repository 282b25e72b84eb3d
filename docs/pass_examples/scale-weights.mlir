// A gate scales the weight, which has fewer elements than the operand.
#extern = #ml_program.extern : tensor<4x3xf32>
#map = affine_map<() -> (8, 4)>
module @aotc {
  ml_program.global private @"model::weights.w"(#extern) : tensor<4x3xf32> {graph.kind = "weight"}
  func.func @gated(%arg0: tensor<4x3xf32> {graph.kind = "weight", graph.name = "weights.w"}, %arg1: tensor<8x4xf32> {graph.kind = "input", graph.name = "x"}, %arg2: tensor<4xf32> {graph.kind = "input", graph.name = "g"}) -> (tensor<8x3xf32> {graph.kind = "output", graph.name = "output"}) attributes {graph.entry = {inputs = {dict = [["x", "*"], ["g", "*"]]}, outputs = "*", reads = ["weights"], updates = []}, graph.symbols = []} {
    %0 = "graph.broadcast"(%arg2) {axes = array<i64: 1>, shape = #map} : (tensor<4xf32>) -> tensor<8x4xf32>
    %1 = "graph.multiply"(%arg1, %0) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = "graph.dot_general"(%1, %arg0) {dtype = "", lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<8x4xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
    return %2 : tensor<8x3xf32>
  }
}

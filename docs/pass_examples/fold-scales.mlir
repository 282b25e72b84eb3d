// The weight is scaled in place of the product.
#extern = #ml_program.extern : tensor<3xf32>
#extern1 = #ml_program.extern : tensor<4x3xf32>
#map = affine_map<() -> (5, 3)>
module @aotc {
  ml_program.global private @"model::weights.bias"(#extern) : tensor<3xf32> {graph.kind = "weight"}
  ml_program.global private @"model::weights.scale"(#extern) : tensor<3xf32> {graph.kind = "weight"}
  ml_program.global private @"model::weights.w"(#extern1) : tensor<4x3xf32> {graph.kind = "weight"}
  func.func @scaled(%arg0: tensor<3xf32> {graph.kind = "weight", graph.name = "weights.bias"}, %arg1: tensor<3xf32> {graph.kind = "weight", graph.name = "weights.scale"}, %arg2: tensor<4x3xf32> {graph.kind = "weight", graph.name = "weights.w"}, %arg3: tensor<5x4xf32> {graph.kind = "input", graph.name = "x"}) -> (tensor<5x3xf32> {graph.kind = "output", graph.name = "output"}) attributes {graph.entry = {inputs = {dict = [["x", "*"]]}, outputs = "*", reads = ["weights"], updates = []}, graph.symbols = []} {
    %0 = "graph.dot_general"(%arg3, %arg2) {dtype = "", lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<5x4xf32>, tensor<4x3xf32>) -> tensor<5x3xf32>
    %1 = "graph.broadcast"(%arg1) {axes = array<i64: 1>, shape = #map} : (tensor<3xf32>) -> tensor<5x3xf32>
    %2 = "graph.multiply"(%0, %1) : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
    %3 = "graph.broadcast"(%arg0) {axes = array<i64: 1>, shape = #map} : (tensor<3xf32>) -> tensor<5x3xf32>
    %4 = "graph.add"(%2, %3) : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
    return %4 : tensor<5x3xf32>
  }
}

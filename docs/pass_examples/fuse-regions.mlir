// A product, its bias and its activation are one kernel.
#extern = #ml_program.extern : tensor<64xf32>
#extern1 = #ml_program.extern : tensor<64x64xf32>
#map = affine_map<() -> (37, 64)>
module @aotc attributes {graph.target = "x86_64-v3"} {
  ml_program.global private @"model::weights.b"(#extern) : tensor<64xf32> {graph.kind = "weight"}
  ml_program.global private @"model::weights.w"(#extern1) : tensor<64x64xf32> {graph.kind = "weight"}
  func.func @dense(%arg0: tensor<64xf32> {graph.kind = "weight", graph.name = "weights.b"}, %arg1: tensor<64x64xf32> {graph.kind = "weight", graph.name = "weights.w"}, %arg2: tensor<37x64xf32> {graph.kind = "input", graph.name = "x"}) -> (tensor<37x64xf32> {graph.kind = "output", graph.name = "output"}) attributes {graph.entry = {inputs = {dict = [["x", "*"]]}, outputs = "*", reads = ["weights"], updates = []}, graph.symbols = []} {
    %0 = "graph.dot_general"(%arg2, %arg1) {dtype = "", lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<37x64xf32>, tensor<64x64xf32>) -> tensor<37x64xf32>
    %1 = "graph.broadcast"(%arg0) {axes = array<i64: 1>, shape = #map} : (tensor<64xf32>) -> tensor<37x64xf32>
    %2 = "graph.add"(%0, %1) : (tensor<37x64xf32>, tensor<37x64xf32>) -> tensor<37x64xf32>
    %3 = "graph.relu"(%2) : (tensor<37x64xf32>) -> tensor<37x64xf32>
    return %3 : tensor<37x64xf32>
  }
}

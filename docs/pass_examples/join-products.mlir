// Two products of one operand are one kernel.
#extern = #ml_program.extern : tensor<64x24xf32>
#extern1 = #ml_program.extern : tensor<64x64xf32>
#map = affine_map<() -> (64, 2, 32)>
#map1 = affine_map<() -> (64, 1, 24)>
#map2 = affine_map<() -> (64, 64)>
#map3 = affine_map<() -> (64, 24)>
module @aotc attributes {graph.target = "x86_64-v3"} {
  ml_program.global private @"model::weights.k"(#extern) : tensor<64x24xf32> {graph.kind = "weight"}
  ml_program.global private @"model::weights.q"(#extern1) : tensor<64x64xf32> {graph.kind = "weight"}
  func.func @heads(%arg0: tensor<64x24xf32> {graph.kind = "weight", graph.name = "weights.k"}, %arg1: tensor<64x64xf32> {graph.kind = "weight", graph.name = "weights.q"}, %arg2: tensor<37x64xf32> {graph.kind = "input", graph.name = "x"}) -> (tensor<37x64xf32> {graph.kind = "output", graph.name = "0"}, tensor<37x24xf32> {graph.kind = "output", graph.name = "1"}) attributes {graph.entry = {inputs = {dict = [["x", "*"]]}, outputs = {tuple = ["*", "*"]}, reads = ["weights"], updates = []}, graph.symbols = []} {
    %0 = "graph.reshape"(%arg1) {shape = #map} : (tensor<64x64xf32>) -> tensor<64x2x32xf32>
    %1 = "graph.transpose"(%0) {permutation = array<i64: 1, 0, 2>} : (tensor<64x2x32xf32>) -> tensor<2x64x32xf32>
    %2 = call @contraction(%arg2, %1) : (tensor<37x64xf32>, tensor<2x64x32xf32>) -> tensor<37x64xf32>
    %3 = "graph.reshape"(%arg0) {shape = #map1} : (tensor<64x24xf32>) -> tensor<64x1x24xf32>
    %4 = "graph.transpose"(%3) {permutation = array<i64: 1, 0, 2>} : (tensor<64x1x24xf32>) -> tensor<1x64x24xf32>
    %5 = call @contraction_1(%arg2, %4) : (tensor<37x64xf32>, tensor<1x64x24xf32>) -> tensor<37x24xf32>
    return %2, %5 : tensor<37x64xf32>, tensor<37x24xf32>
  }
  func.func private @contraction(%arg0: tensor<37x64xf32>, %arg1: tensor<2x64x32xf32>) -> tensor<37x64xf32> attributes {graph.fused = {kernel = "contraction", tile = {block = 13 : i64, lanes = 8 : i64, rows = 3 : i64, vectors = 4 : i64}}, graph.symbols = []} {
    %0 = "graph.transpose"(%arg1) {permutation = array<i64: 1, 0, 2>} : (tensor<2x64x32xf32>) -> tensor<64x2x32xf32>
    %1 = "graph.reshape"(%0) {shape = #map2} : (tensor<64x2x32xf32>) -> tensor<64x64xf32>
    %2 = "graph.dot_general"(%arg0, %1) {dtype = "", lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<37x64xf32>, tensor<64x64xf32>) -> tensor<37x64xf32>
    return %2 : tensor<37x64xf32>
  }
  func.func private @contraction_1(%arg0: tensor<37x64xf32>, %arg1: tensor<1x64x24xf32>) -> tensor<37x24xf32> attributes {graph.fused = {kernel = "contraction", tile = {block = 10 : i64, lanes = 8 : i64, rows = 4 : i64, vectors = 3 : i64}}, graph.symbols = []} {
    %0 = "graph.transpose"(%arg1) {permutation = array<i64: 1, 0, 2>} : (tensor<1x64x24xf32>) -> tensor<64x1x24xf32>
    %1 = "graph.reshape"(%0) {shape = #map3} : (tensor<64x1x24xf32>) -> tensor<64x24xf32>
    %2 = "graph.dot_general"(%arg0, %1) {dtype = "", lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<37x64xf32>, tensor<64x24xf32>) -> tensor<37x24xf32>
    return %2 : tensor<37x24xf32>
  }
}

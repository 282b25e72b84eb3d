// Two halves of the columns that meet become two products.
#extern = #ml_program.extern : tensor<280x120xf32>
#map = affine_map<() -> (37, 60)>
#map1 = affine_map<() -> (0, 0)>
#map2 = affine_map<() -> (0, 60)>
module @aotc attributes {graph.target = "x86_64-v3"} {
  ml_program.global private @"model::weights.w"(#extern) : tensor<280x120xf32> {graph.kind = "weight"}
  func.func @pair(%arg0: tensor<280x120xf32> {graph.kind = "weight", graph.name = "weights.w"}, %arg1: tensor<37x280xf32> {graph.kind = "input", graph.name = "x"}, %arg2: tensor<37x120xf32> {graph.kind = "input", graph.name = "z"}) -> (tensor<37x60xf32> {graph.kind = "output", graph.name = "output"}) attributes {graph.entry = {inputs = {dict = [["x", "*"], ["z", "*"]]}, outputs = "*", reads = ["weights"], updates = []}, graph.symbols = []} {
    %0 = "graph.dot_general"(%arg1, %arg0) {dtype = "", lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<37x280xf32>, tensor<280x120xf32>) -> tensor<37x120xf32>
    %1 = "graph.add"(%0, %arg2) : (tensor<37x120xf32>, tensor<37x120xf32>) -> tensor<37x120xf32>
    %2 = "graph.slice"(%1) {sizes = #map, start = #map1, strides = array<i64: 1, 1>} : (tensor<37x120xf32>) -> tensor<37x60xf32>
    %3 = "graph.logistic"(%2) : (tensor<37x60xf32>) -> tensor<37x60xf32>
    %4 = "graph.slice"(%1) {sizes = #map, start = #map2, strides = array<i64: 1, 1>} : (tensor<37x120xf32>) -> tensor<37x60xf32>
    %5 = "graph.multiply"(%3, %4) : (tensor<37x60xf32>, tensor<37x60xf32>) -> tensor<37x60xf32>
    return %5 : tensor<37x60xf32>
  }
}

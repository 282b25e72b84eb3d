// A lookup reads the packing that the product by the same weight reads.
#extern = #ml_program.extern : tensor<1003x300xf32>
#map = affine_map<() -> (5, 0)>
#map1 = affine_map<() -> (0, 0)>
#map2 = affine_map<() -> (21, 48, 300)>
#map3 = affine_map<() -> (1008, 300)>
#map4 = affine_map<() -> (1003, 300)>
module @aotc attributes {graph.target = "x86_64-v3"} {
  ml_program.global private @"model::weights.words"(#extern) : tensor<1003x300xf32> {graph.kind = "weight"}
  func.func @words(%arg0: tensor<1003x300xf32> {graph.kind = "weight", graph.name = "weights.words"}, %arg1: tensor<1x2xi32> {graph.kind = "input", graph.name = "ids"}) -> (tensor<1x2x1003xf32> {graph.kind = "output", graph.name = "output"}) attributes {graph.entry = {inputs = {dict = [["ids", "*"]]}, outputs = "*", reads = ["weights"], updates = []}, graph.symbols = []} {
    %0 = "graph.gather"(%arg0, %arg1) {along = array<i64: 0, 1>, axes = array<i64: 0>, kept = array<i64: 2>, mode = "clip"} : (tensor<1003x300xf32>, tensor<1x2xi32>) -> tensor<1x2x300xf32>
    %1 = "graph.tanh"(%0) : (tensor<1x2x300xf32>) -> tensor<1x2x300xf32>
    %2 = "graph.transpose"(%arg0) {permutation = array<i64: 1, 0>} : (tensor<1003x300xf32>) -> tensor<300x1003xf32>
    %3 = "graph.pad"(%arg0) {high = #map, interior = array<i64: 0, 0>, low = #map1, value = 0.000000e+00 : f64} : (tensor<1003x300xf32>) -> tensor<1008x300xf32>
    %4 = "graph.reshape"(%3) {shape = #map2} : (tensor<1008x300xf32>) -> tensor<21x48x300xf32>
    %5 = "graph.transpose"(%4) {permutation = array<i64: 0, 2, 1>} : (tensor<21x48x300xf32>) -> tensor<21x300x48xf32>
    %6 = call @contraction(%1, %5) : (tensor<1x2x300xf32>, tensor<21x300x48xf32>) -> tensor<1x2x1003xf32>
    return %6 : tensor<1x2x1003xf32>
  }
  func.func private @contraction(%arg0: tensor<1x2x300xf32>, %arg1: tensor<21x300x48xf32>) -> tensor<1x2x1003xf32> attributes {graph.fused = {kernel = "contraction", tile = {block = 1 : i64, lanes = 8 : i64, rows = 2 : i64, vectors = 6 : i64}}, graph.symbols = []} {
    %0 = "graph.transpose"(%arg1) {permutation = array<i64: 0, 2, 1>} : (tensor<21x300x48xf32>) -> tensor<21x48x300xf32>
    %1 = "graph.reshape"(%0) {shape = #map3} : (tensor<21x48x300xf32>) -> tensor<1008x300xf32>
    %2 = "graph.slice"(%1) {sizes = #map4, start = #map1, strides = array<i64: 1, 1>} : (tensor<1008x300xf32>) -> tensor<1003x300xf32>
    %3 = "graph.dot_general"(%arg0, %2) {dtype = "", lhs_batch = array<i64>, lhs_contract = array<i64: 2>, rhs_batch = array<i64>, rhs_contract = array<i64: 1>} : (tensor<1x2x300xf32>, tensor<1003x300xf32>) -> tensor<1x2x1003xf32>
    return %3 : tensor<1x2x1003xf32>
  }
}

// A rotary embedding is one sum of two products.
#extern = #ml_program.extern : tensor<5x8xf32>
#map = affine_map<() -> (2, 5, 8)>
#map1 = affine_map<() -> (2, 5, 4)>
#map2 = affine_map<() -> (0, 0, 0)>
#map3 = affine_map<() -> (0, 0, 4)>
module @aotc {
  ml_program.global private @"model::weights.c"(#extern) : tensor<5x8xf32> {graph.kind = "weight"}
  ml_program.global private @"model::weights.s"(#extern) : tensor<5x8xf32> {graph.kind = "weight"}
  func.func @rotary(%arg0: tensor<5x8xf32> {graph.kind = "weight", graph.name = "weights.c"}, %arg1: tensor<5x8xf32> {graph.kind = "weight", graph.name = "weights.s"}, %arg2: tensor<2x5x8xf32> {graph.kind = "input", graph.name = "x"}) -> (tensor<2x5x8xf32> {graph.kind = "output", graph.name = "output"}) attributes {graph.entry = {inputs = {dict = [["x", "*"]]}, outputs = "*", reads = ["weights"], updates = []}, graph.symbols = []} {
    %0 = "graph.broadcast"(%arg0) {axes = array<i64: 1, 2>, shape = #map} : (tensor<5x8xf32>) -> tensor<2x5x8xf32>
    %1 = "graph.multiply"(%arg2, %0) : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
    %2 = "graph.slice"(%arg2) {sizes = #map1, start = #map2, strides = array<i64: 1, 1, 1>} : (tensor<2x5x8xf32>) -> tensor<2x5x4xf32>
    %3 = "graph.slice"(%arg2) {sizes = #map1, start = #map3, strides = array<i64: 1, 1, 1>} : (tensor<2x5x8xf32>) -> tensor<2x5x4xf32>
    %4 = "graph.negate"(%3) : (tensor<2x5x4xf32>) -> tensor<2x5x4xf32>
    %5 = "graph.concatenate"(%4, %2) {axis = 2 : i64} : (tensor<2x5x4xf32>, tensor<2x5x4xf32>) -> tensor<2x5x8xf32>
    %6 = "graph.broadcast"(%arg1) {axes = array<i64: 1, 2>, shape = #map} : (tensor<5x8xf32>) -> tensor<2x5x8xf32>
    %7 = "graph.multiply"(%5, %6) : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
    %8 = "graph.add"(%1, %7) : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
    return %8 : tensor<2x5x8xf32>
  }
}

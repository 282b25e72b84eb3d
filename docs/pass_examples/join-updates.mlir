// The updates of two parameters are one kernel.
#extern = #ml_program.extern : tensor<4x3xf32>
#extern1 = #ml_program.extern : tensor<3xf32>
#map = affine_map<() -> (4, 3)>
#map1 = affine_map<() -> (3)>
module @aotc attributes {graph.states = [{leaves = ["state.p", "state.q"], name = "state", tree = {dict = [["p", "*"], ["q", "*"]]}}], graph.target = "x86_64-v3"} {
  ml_program.global private mutable @"model::state.p"(#extern) : tensor<4x3xf32> {graph.kind = "state"}
  ml_program.global private mutable @"model::state.q"(#extern1) : tensor<3xf32> {graph.kind = "state"}
  func.func @update(%arg0: tensor<4x3xf32> {graph.kind = "state", graph.name = "state.p"}, %arg1: tensor<3xf32> {graph.kind = "state", graph.name = "state.q"}, %arg2: tensor<4x3xf32> {graph.kind = "input", graph.name = "g"}, %arg3: tensor<3xf32> {graph.kind = "input", graph.name = "h"}) -> (tensor<4x3xf32> {graph.kind = "state", graph.name = "state.p"}, tensor<3xf32> {graph.kind = "state", graph.name = "state.q"}, tensor<f32> {graph.kind = "output", graph.name = "output"}) attributes {graph.entry = {inputs = {dict = [["g", "*"], ["h", "*"]]}, outputs = "*", reads = ["state"], updates = ["state"]}, graph.symbols = []} {
    %0 = "graph.constant"() {value = dense<1.000000e-01> : tensor<f32>} : () -> tensor<f32>
    %1 = "graph.broadcast"(%0) {axes = array<i64>, shape = #map} : (tensor<f32>) -> tensor<4x3xf32>
    %2 = "graph.multiply"(%arg2, %1) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %3 = "graph.subtract"(%arg0, %2) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %4 = "graph.broadcast"(%0) {axes = array<i64>, shape = #map1} : (tensor<f32>) -> tensor<3xf32>
    %5 = "graph.multiply"(%arg3, %4) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %6 = "graph.subtract"(%arg1, %5) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %7 = "graph.reduce_sum"(%arg2) {axes = array<i64: 0, 1>} : (tensor<4x3xf32>) -> tensor<f32>
    return %3, %6, %7 : tensor<4x3xf32>, tensor<3xf32>, tensor<f32>
  }
}

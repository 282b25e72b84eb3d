// Two states that read the same are written over in one loop.
#extern = #ml_program.extern : tensor<4x3xf32>
#map = affine_map<(d0, d1) -> (d0, d1)>
module @aotc attributes {graph.states = [{leaves = ["state.p", "state.q"], name = "state", tree = {dict = [["p", "*"], ["q", "*"]]}}]} {
  ml_program.global private mutable @"model::state.p"(#extern) : tensor<4x3xf32> {graph.kind = "state"}
  ml_program.global private mutable @"model::state.q"(#extern) : tensor<4x3xf32> {graph.kind = "state"}
  func.func @sgd(%arg0: tensor<4x3xf32> {graph.kind = "state", graph.name = "state.p", graph.type = tensor<4x3xf32>}, %arg1: tensor<4x3xf32> {graph.kind = "state", graph.name = "state.q", graph.type = tensor<4x3xf32>}, %arg2: tensor<4x3xf32> {graph.kind = "input", graph.name = "x", graph.type = tensor<4x3xf32>}) -> (tensor<4x3xf32> {graph.kind = "state", graph.name = "state.p", graph.type = tensor<4x3xf32>}, tensor<4x3xf32> {graph.kind = "state", graph.name = "state.q", graph.type = tensor<4x3xf32>}, tensor<4x3xf32> {graph.kind = "output", graph.name = "output", graph.type = tensor<4x3xf32>}) attributes {graph.entry = {inputs = {dict = [["x", "*"]]}, outputs = "*", reads = ["state"], updates = ["state"]}, graph.symbols = []} {
    %0 = tensor.empty() : tensor<4x3xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %arg2 : tensor<4x3xf32>, tensor<4x3xf32>) outs(%0 : tensor<4x3xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %3 = arith.addf %in, %in_0 : f32
      linalg.yield %3 : f32
    } -> tensor<4x3xf32>
    %2 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg1, %arg2 : tensor<4x3xf32>, tensor<4x3xf32>) outs(%0 : tensor<4x3xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %3 = arith.subf %in, %in_0 : f32
      linalg.yield %3 : f32
    } -> tensor<4x3xf32>
    return %1, %2, %arg2 : tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>
  }
}

// An exponential that is read early and late is computed again for the late reader, from an argument that waits for a later value.
// options: entry=deep,bytes=8500
#map = affine_map<(d0, d1) -> (d0, d1)>
module @aotc {
  func.func @deep(%arg0: tensor<16x16xf32> {graph.kind = "input", graph.name = "x", graph.type = tensor<16x16xf32>}, %arg1: tensor<16x64xf32> {graph.kind = "input", graph.name = "w", graph.type = tensor<16x64xf32>}, %arg2: tensor<64x16xf32> {graph.kind = "input", graph.name = "v", graph.type = tensor<64x16xf32>}) -> (tensor<16x16xf32> {graph.kind = "output", graph.name = "output", graph.type = tensor<16x16xf32>}) attributes {graph.entry = {inputs = {dict = [["x", "*"], ["w", "*"], ["v", "*"]]}, outputs = "*", reads = [], updates = []}, graph.symbols = []} {
    %0 = tensor.empty() : tensor<16x16xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<16x16xf32>) outs(%0 : tensor<16x16xf32>) {
    ^bb0(%in: f32, %out: f32):
      %9 = math.exp %in : f32
      linalg.yield %9 : f32
    } -> tensor<16x16xf32>
    %cst = arith.constant 0.000000e+00 : f32
    %2 = tensor.empty() : tensor<16x64xf32>
    %3 = linalg.fill ins(%cst : f32) outs(%2 : tensor<16x64xf32>) -> tensor<16x64xf32>
    %4 = linalg.matmul {cast = #linalg.type_fn<cast_signed>} ins(%1, %arg1 : tensor<16x16xf32>, tensor<16x64xf32>) outs(%3 : tensor<16x64xf32>) -> tensor<16x64xf32>
    %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%4 : tensor<16x64xf32>) outs(%2 : tensor<16x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      %9 = math.tanh %in : f32
      linalg.yield %9 : f32
    } -> tensor<16x64xf32>
    %6 = linalg.fill ins(%cst : f32) outs(%0 : tensor<16x16xf32>) -> tensor<16x16xf32>
    %7 = linalg.matmul {cast = #linalg.type_fn<cast_signed>} ins(%5, %arg2 : tensor<16x64xf32>, tensor<64x16xf32>) outs(%6 : tensor<16x16xf32>) -> tensor<16x16xf32>
    %8 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%7, %1 : tensor<16x16xf32>, tensor<16x16xf32>) outs(%0 : tensor<16x16xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %9 = arith.mulf %in, %in_0 : f32
      linalg.yield %9 : f32
    } -> tensor<16x16xf32>
    return %8 : tensor<16x16xf32>
  }
}

// A loop is blocks that jump to one another.
#map = affine_map<(d0) -> (d0)>
module {
  func.func @f(%arg0: tensor<4xf32>) -> tensor<4xf32> attributes {graph.symbols = []} {
    %0 = call @iree.barrier(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
    %c3 = arith.constant 3 : index
    %c0 = arith.constant 0 : index
    %1 = scf.for %arg1 = %c0 to %c3 step %c3 iter_args(%arg2 = %0) -> (tensor<4xf32>) {
      %cst = arith.constant 2.000000e+00 : f32
      %2 = tensor.empty() : tensor<4xf32>
      %3 = linalg.fill ins(%cst : f32) outs(%2 : tensor<4xf32>) -> tensor<4xf32>
      %4 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel"]} ins(%arg2, %3 : tensor<4xf32>, tensor<4xf32>) outs(%2 : tensor<4xf32>) {
      ^bb0(%in: f32, %in_0: f32, %out: f32):
        %7 = arith.mulf %in, %in_0 : f32
        linalg.yield %7 : f32
      } -> tensor<4xf32>
      %c1 = arith.constant 1 : index
      %5 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel"]} ins(%4, %3 : tensor<4xf32>, tensor<4xf32>) outs(%2 : tensor<4xf32>) {
      ^bb0(%in: f32, %in_0: f32, %out: f32):
        %7 = arith.mulf %in, %in_0 : f32
        linalg.yield %7 : f32
      } -> tensor<4xf32>
      %c2 = arith.constant 2 : index
      %6 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel"]} ins(%5, %3 : tensor<4xf32>, tensor<4xf32>) outs(%2 : tensor<4xf32>) {
      ^bb0(%in: f32, %in_0: f32, %out: f32):
        %7 = arith.mulf %in, %in_0 : f32
        linalg.yield %7 : f32
      } -> tensor<4xf32>
      scf.yield %6 : tensor<4xf32>
    }
    return %1 : tensor<4xf32>
  }
  func.func private @iree.barrier(tensor<4xf32>) -> tensor<4xf32> attributes {graph.iree_body = "%y = util.optimization_barrier %0 : tensor<4xf32>\0A%z = flow.tensor.tie_shape %y : tensor<4xf32>\0Areturn %z : tensor<4xf32>"}
}

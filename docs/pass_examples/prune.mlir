// No op reads what a loop stacks, so its steps do not make it.
#map = affine_map<() -> (5)>
module {
  func.func @f(%arg0: tensor<2xf32>, %arg1: tensor<5x2xf32>) -> tensor<2xf32> attributes {graph.symbols = []} {
    %0:2 = call @f.scan(%arg0, %arg1) : (tensor<2xf32>, tensor<5x2xf32>) -> (tensor<2xf32>, tensor<5x2xf32>)
    return %0#0 : tensor<2xf32>
  }
  func.func private @f.lambda(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) attributes {graph.symbols = []} {
    %0 = "graph.multiply"(%arg0, %arg1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %1 = "graph.tanh"(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
    return %0, %1 : tensor<2xf32>, tensor<2xf32>
  }
  func.func private @f.scan(tensor<2xf32>, tensor<5x2xf32>) -> (tensor<2xf32>, tensor<5x2xf32>) attributes {graph.control = {carries = 1 : i64, functions = [@f.lambda], kind = "scan", length = #map, reverse = false, scanned = 1 : i64}, graph.symbols = []}
}

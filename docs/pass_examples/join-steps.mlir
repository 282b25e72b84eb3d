// The product by the inputs of all steps comes before the loop.
#map = affine_map<() -> (5)>
module {
  func.func @f(%arg0: tensor<2x4xf32>, %arg1: tensor<5x2x4xf32>, %arg2: tensor<4x4xf32>, %arg3: tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<5x2x4xf32>) attributes {graph.symbols = []} {
    %0:2 = call @f.scan(%arg0, %arg1, %arg2, %arg3) : (tensor<2x4xf32>, tensor<5x2x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<5x2x4xf32>)
    return %0#0, %0#1 : tensor<2x4xf32>, tensor<5x2x4xf32>
  }
  func.func private @f.step(%arg0: tensor<2x4xf32>, %arg1: tensor<2x4xf32>, %arg2: tensor<4x4xf32>, %arg3: tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) attributes {graph.symbols = []} {
    %0 = "graph.dot_general"(%arg1, %arg2) {dtype = "", lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %1 = "graph.dot_general"(%arg0, %arg3) {dtype = "", lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %2 = "graph.add"(%0, %1) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %3 = "graph.tanh"(%2) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    return %3, %3 : tensor<2x4xf32>, tensor<2x4xf32>
  }
  func.func private @f.scan(tensor<2x4xf32>, tensor<5x2x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<5x2x4xf32>) attributes {graph.control = {carries = 1 : i64, functions = [@f.step], kind = "scan", length = #map, reverse = false, scanned = 1 : i64}, graph.symbols = []}
}

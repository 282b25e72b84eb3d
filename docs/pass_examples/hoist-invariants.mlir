// The exponential of a capture is computed before the loop.
#map = affine_map<() -> (3)>
module {
  func.func @f(%arg0: tensor<4x4xf32>, %arg1: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {graph.symbols = []} {
    %0 = "graph.iota"() {axis = 0 : i64, dtype = "i32", shape = #map} : () -> tensor<3xi32>
    %1 = "graph.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
    %2 = "graph.broadcast"(%1) {axes = array<i64>, shape = #map} : (tensor<i32>) -> tensor<3xi32>
    %3 = "graph.add"(%0, %2) : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
    %4 = call @f.scan(%arg0, %3, %arg1) : (tensor<4x4xf32>, tensor<3xi32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %4 : tensor<4x4xf32>
  }
  func.func private @f.step(%arg0: tensor<4x4xf32>, %arg1: tensor<i32>, %arg2: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {graph.symbols = []} {
    %0 = "graph.exp"(%arg2) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = "graph.dot_general"(%arg0, %0) {dtype = "", lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %2 = "graph.tanh"(%1) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %2 : tensor<4x4xf32>
  }
  func.func private @f.scan(tensor<4x4xf32>, tensor<3xi32>, tensor<4x4xf32>) -> tensor<4x4xf32> attributes {graph.control = {carries = 1 : i64, functions = [@f.step], kind = "scan", length = #map, reverse = false, scanned = 1 : i64}, graph.symbols = []}
}

// The derivative of a loop reads the states that the loop stacks.
#map = affine_map<() -> (5, 2, 4)>
#map1 = affine_map<() -> (2, 4)>
#map2 = affine_map<() -> (5)>
module {
  func.func @f(%arg0: tensor<2x4xf32>, %arg1: tensor<5x2x4xf32>, %arg2: tensor<4x4xf32>) -> tensor<2x4xf32> attributes {graph.symbols = []} {
    %0 = "graph.constant"() {value = dense<1.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %1:2 = call @f.scan(%arg0, %arg1, %arg2) : (tensor<2x4xf32>, tensor<5x2x4xf32>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<5x2x4xf32>)
    %2 = "graph.broadcast"(%0) {axes = array<i64>, shape = #map} : (tensor<f32>) -> tensor<5x2x4xf32>
    %3 = "graph.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %4 = "graph.broadcast"(%3) {axes = array<i64>, shape = #map1} : (tensor<f32>) -> tensor<2x4xf32>
    %5 = call @f.loss2.vjp.scan_1(%4, %1#1, %arg1, %2, %arg2) : (tensor<2x4xf32>, tensor<5x2x4xf32>, tensor<5x2x4xf32>, tensor<5x2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    return %5 : tensor<2x4xf32>
  }
  func.func private @f.loss2.step.back(%arg0: tensor<2x4xf32>, %arg1: tensor<2x4xf32>, %arg2: tensor<2x4xf32>, %arg3: tensor<2x4xf32>, %arg4: tensor<4x4xf32>) -> tensor<2x4xf32> attributes {graph.symbols = []} {
    %0 = "graph.dot_general"(%arg1, %arg4) {dtype = "", lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %1 = "graph.add"(%0, %arg2) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %2 = "graph.tanh"(%1) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %3 = "graph.add"(%arg0, %arg3) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %4 = "graph.constant"() {value = dense<1.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %5 = "graph.broadcast"(%4) {axes = array<i64>, shape = #map1} : (tensor<f32>) -> tensor<2x4xf32>
    %6 = "graph.multiply"(%2, %2) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %7 = "graph.subtract"(%5, %6) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %8 = "graph.multiply"(%7, %3) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %9 = "graph.dot_general"(%8, %arg4) {dtype = "", lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 1>} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    return %9 : tensor<2x4xf32>
  }
  func.func private @f.loss2.vjp.scan_1(tensor<2x4xf32>, tensor<5x2x4xf32>, tensor<5x2x4xf32>, tensor<5x2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32> attributes {graph.control = {carries = 1 : i64, functions = [@f.loss2.step.back], kind = "scan", length = #map2, reverse = true, scanned = 3 : i64}, graph.symbols = []}
  func.func private @f.loss2.step.saving_1(%arg0: tensor<2x4xf32>, %arg1: tensor<2x4xf32>, %arg2: tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) attributes {graph.symbols = []} {
    %0 = "graph.dot_general"(%arg0, %arg2) {dtype = "", lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %1 = "graph.add"(%0, %arg1) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %2 = "graph.tanh"(%1) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    return %2, %arg0 : tensor<2x4xf32>, tensor<2x4xf32>
  }
  func.func private @f.scan(tensor<2x4xf32>, tensor<5x2x4xf32>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<5x2x4xf32>) attributes {graph.control = {carries = 1 : i64, functions = [@f.loss2.step.saving_1], kind = "scan", length = #map2, reverse = false, scanned = 1 : i64}, graph.symbols = []}
}

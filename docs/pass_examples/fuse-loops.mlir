// A loop of small steps is one kernel.
#map = affine_map<() -> (8)>
#map1 = affine_map<() -> (20)>
module attributes {graph.target = "x86_64-v3"} {
  func.func @f(%arg0: tensor<8xf32>, %arg1: tensor<20x8xf32>) -> (tensor<8xf32>, tensor<20x8xf32>) attributes {graph.symbols = []} {
    %0:2 = call @f.scan(%arg0, %arg1) : (tensor<8xf32>, tensor<20x8xf32>) -> (tensor<8xf32>, tensor<20x8xf32>)
    return %0#0, %0#1 : tensor<8xf32>, tensor<20x8xf32>
  }
  func.func private @f.step(%arg0: tensor<8xf32>, %arg1: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {graph.symbols = []} {
    %0 = "graph.constant"() {value = dense<5.000000e-01> : tensor<f32>} : () -> tensor<f32>
    %1 = "graph.broadcast"(%0) {axes = array<i64>, shape = #map} : (tensor<f32>) -> tensor<8xf32>
    %2 = "graph.multiply"(%arg0, %1) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %3 = "graph.sin"(%arg1) : (tensor<8xf32>) -> tensor<8xf32>
    %4 = "graph.add"(%2, %3) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %4, %4 : tensor<8xf32>, tensor<8xf32>
  }
  func.func private @f.scan(tensor<8xf32>, tensor<20x8xf32>) -> (tensor<8xf32>, tensor<20x8xf32>) attributes {graph.control = {carries = 1 : i64, functions = [@f.step], kind = "scan", length = #map1, reverse = false, scanned = 1 : i64}, graph.symbols = []}
}

// The gradient of attention for a processor whose kernel of it is left out.
// options: without=attention_gradient
#map = affine_map<() -> (1, 3, 1, 4)>
#map1 = affine_map<() -> (1, 3, 1)>
#map2 = affine_map<() -> (1, 1, 3)>
module {
  func.func @gradient(%arg0: tensor<1x3x1x4xf32>, %arg1: tensor<1x3x1x4xf32>, %arg2: tensor<1x3x1x4xf32>) -> (tensor<1x3x1x4xf32>) attributes {graph.symbols = []} {
    %0 = "graph.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %1:2 = "graph.attention"(%arg0, %arg1, %arg2, %0) {causal = false, safe = false, scale = 1.000000e+00 : f64} : (tensor<1x3x1x4xf32>, tensor<1x3x1x4xf32>, tensor<1x3x1x4xf32>, tensor<f32>) -> (tensor<1x3x1x4xf32>, tensor<1x1x3xf32>)
    %2 = "graph.constant"() {value = dense<1.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %3 = "graph.broadcast"(%2) {axes = array<i64>, shape = #map} : (tensor<f32>) -> tensor<1x3x1x4xf32>
    %4 = "graph.reduce_sum"(%1#0) {axes = array<i64: 3>} : (tensor<1x3x1x4xf32>) -> tensor<1x3x1xf32>
    %5 = "graph.broadcast"(%0) {axes = array<i64>, shape = #map1} : (tensor<f32>) -> tensor<1x3x1xf32>
    %6 = "graph.subtract"(%5, %4) : (tensor<1x3x1xf32>, tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
    %7 = "graph.reshape"(%6) {shape = #map2} : (tensor<1x3x1xf32>) -> tensor<1x1x3xf32>
    %8:4 = "graph.attention_gradient"(%arg0, %arg1, %arg2, %0, %3, %1#1, %7) {causal = false, safe = false, scale = 1.000000e+00 : f64} : (tensor<1x3x1x4xf32>, tensor<1x3x1x4xf32>, tensor<1x3x1x4xf32>, tensor<f32>, tensor<1x3x1x4xf32>, tensor<1x1x3xf32>, tensor<1x1x3xf32>) -> (tensor<1x3x1x4xf32>, tensor<1x3x1x4xf32>, tensor<1x3x1x4xf32>, tensor<f32>)
    return %8#0 : tensor<1x3x1x4xf32>
  }
}

// A weight in bytes that no kernel reads becomes floats by ops.
module {
  func.func @f(%arg0: tensor<4x6xi8>, %arg1: tensor<4x2xf32>) -> tensor<4x6xf32> attributes {graph.symbols = []} {
    %0 = "graph.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "graph.dequantize"(%arg0, %arg1, %0) {axis = 1 : i64, bits = 8 : i64} : (tensor<4x6xi8>, tensor<4x2xf32>, tensor<f32>) -> tensor<4x6xf32>
    return %1 : tensor<4x6xf32>
  }
}

// Scales of f16 are made f32 before they are read.
module attributes {graph.target = "x86_64-v3"} {
  func.func @f(%arg0: tensor<4x6xi8>, %arg1: tensor<4x2xf16>) -> tensor<4x6xf32> attributes {graph.symbols = []} {
    %0 = "graph.constant"() {value = dense<0.000000e+00> : tensor<f16>} : () -> tensor<f16>
    %1 = "graph.dequantize"(%arg0, %arg1, %0) {axis = 1 : i64, bits = 8 : i64} : (tensor<4x6xi8>, tensor<4x2xf16>, tensor<f16>) -> tensor<4x6xf32>
    return %1 : tensor<4x6xf32>
  }
}

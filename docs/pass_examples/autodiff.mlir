// The gradient of a sum of exponentials.
module {
  func.func @f(%arg0: tensor<3xf64>) -> tensor<3xf64> attributes {graph.symbols = []} {
    %0 = "graph.constant"() {value = dense<1.000000e+00> : tensor<f64>} : () -> tensor<f64>
    %1:2 = call @f.lambda.vjp(%arg0, %0) : (tensor<3xf64>, tensor<f64>) -> (tensor<f64>, tensor<3xf64>)
    return %1#1 : tensor<3xf64>
  }
  func.func private @f.lambda(%arg0: tensor<3xf64>) -> tensor<f64> attributes {graph.symbols = []} {
    %0 = "graph.exp"(%arg0) : (tensor<3xf64>) -> tensor<3xf64>
    %1 = "graph.reduce_sum"(%0) {axes = array<i64: 0>} : (tensor<3xf64>) -> tensor<f64>
    return %1 : tensor<f64>
  }
  func.func private @f.lambda.vjp(tensor<3xf64>, tensor<f64>) -> (tensor<f64>, tensor<3xf64>) attributes {graph.symbols = [], graph.vjp = {of = @f.lambda, wrt = array<i64: 0>}}
}

// An entry of images with channels first takes and returns them with channels last.
// options: layout=nhwc
#extern = #ml_program.extern : tensor<3x3x3x4xf32>
module @aotc {
  ml_program.global private @"model::weights.kernel"(#extern) : tensor<3x3x3x4xf32> {graph.kind = "weight"}
  func.func @main(%arg0: tensor<3x3x3x4xf32> {graph.kind = "weight", graph.name = "weights.kernel"}, %arg1: tensor<1x3x6x6xf32> {graph.kind = "input", graph.name = "x"}) -> (tensor<1x4x6x6xf32> {graph.kind = "output", graph.name = "output"}) attributes {graph.entry = {inputs = {dict = [["x", "*"]]}, outputs = "*", reads = ["weights"], updates = []}, graph.symbols = []} {
    %0 = "graph.transpose"(%arg1) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x3x6x6xf32>) -> tensor<1x6x6x3xf32>
    %1 = "graph.conv_general"(%0, %arg0) {dilation = array<i64: 1, 1>, groups = 1 : i64, padding = array<i64: 1, 1, 1, 1>, strides = array<i64: 1, 1>} : (tensor<1x6x6x3xf32>, tensor<3x3x3x4xf32>) -> tensor<1x6x6x4xf32>
    %2 = "graph.transpose"(%1) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x6x6x4xf32>) -> tensor<1x4x6x6xf32>
    return %2 : tensor<1x4x6x6xf32>
  }
}

// Two devices compute a call of the entry together.
module @aotc {
  func.func @exchanged(%arg0: tensor<4xf32> {graph.kind = "input", graph.name = "x"}, %arg1: tensor<4xf32> {graph.kind = "input", graph.name = "y"}) -> (tensor<4xf32> {graph.kind = "output", graph.name = "0"}, tensor<4xf32> {graph.kind = "output", graph.name = "1"}) attributes {graph.entry = {inputs = {dict = [["x", "*"], ["y", "*"]]}, outputs = {tuple = ["*", "*"]}, reads = [], updates = []}, graph.symbols = []} {
    %0 = "graph.tanh"(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "graph.multiply"(%0, %arg1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = "graph.sin"(%1) : (tensor<4xf32>) -> tensor<4xf32>
    %3 = "graph.all_reduce"(%2) {axis_name = "data", axis_size = 2 : i64, kind = "sum"} : (tensor<4xf32>) -> tensor<4xf32>
    %4 = "graph.all_reduce"(%0) {axis_name = "data", axis_size = 2 : i64, kind = "sum"} : (tensor<4xf32>) -> tensor<4xf32>
    return %3, %4 : tensor<4xf32>, tensor<4xf32>
  }
}

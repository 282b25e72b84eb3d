// A sum over a batch and a row is one of sums over rows.
module @aotc attributes {graph.target = "x86_64-v3"} {
  func.func @summed(%arg0: tensor<64x8x256xf32> {graph.kind = "input", graph.name = "x"}) -> (tensor<8xf32> {graph.kind = "output", graph.name = "output"}) attributes {graph.entry = {inputs = {dict = [["x", "*"]]}, outputs = "*", reads = [], updates = []}, graph.symbols = []} {
    %0 = "graph.reduce_sum"(%arg0) {axes = array<i64: 0, 2>} : (tensor<64x8x256xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

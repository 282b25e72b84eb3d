// An op is a loop, and a symbolic size a number that is computed of the input.
#map = affine_map<()[s0] -> (s0, 4)>
module @aotc {
  func.func @exponential(%arg0: tensor<?x4xf32, #map> {graph.kind = "input", graph.name = "x"}) -> (tensor<?x4xf32, #map> {graph.kind = "output", graph.name = "output"}) attributes {graph.entry = {inputs = {dict = [["x", "*"]]}, outputs = "*", reads = [], updates = []}, graph.symbols = [{min = 1 : i64, multiple_of = 1 : i64, name = "n"}]} {
    %0 = "graph.exp"(%arg0) : (tensor<?x4xf32, #map>) -> tensor<?x4xf32, #map>
    return %0 : tensor<?x4xf32, #map>
  }
}

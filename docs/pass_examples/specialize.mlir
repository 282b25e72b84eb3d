// An entry whose calls with a batch of 4 are to have code of their own.
#map = affine_map<()[s0] -> (s0, 8)>
#map1 = affine_map<()[s0] -> (s0)>
module @aotc {
  func.func @f(%arg0: tensor<?x8xf32, #map> {graph.kind = "input", graph.name = "x"}) -> (tensor<?xf32, #map1> {graph.kind = "output", graph.name = "output"}) attributes {graph.entry = {inputs = {dict = [["x", "*"]]}, outputs = "*", reads = [], updates = []}, graph.specializations = [{batch = 4 : i64}], graph.symbols = [{min = 1 : i64, multiple_of = 1 : i64, name = "batch"}]} {
    %0 = "graph.tanh"(%arg0) : (tensor<?x8xf32, #map>) -> tensor<?x8xf32, #map>
    %1 = "graph.reduce_sum"(%0) {axes = array<i64: 1>} : (tensor<?x8xf32, #map>) -> tensor<?xf32, #map1>
    return %1 : tensor<?xf32, #map1>
  }
}

// The product of all pairs, which lies between input and output, may be larger than both.
#map = affine_map<()[s0] -> (s0)>
#map1 = affine_map<()[s0, s1] -> (s1)>
#map2 = affine_map<()[s0] -> (s0, 1)>
#map3 = affine_map<()[s0, s1] -> (1, s1)>
#map4 = affine_map<()[s0, s1] -> (s0, s1)>
module @aotc {
  func.func @outer(%arg0: tensor<?xf32, #map> {graph.kind = "input", graph.name = "x"}, %arg1: tensor<?xf32, #map1> {graph.kind = "input", graph.name = "y"}) -> (tensor<?xf32, #map> {graph.kind = "output", graph.name = "output"}) attributes {graph.entry = {inputs = {dict = [["x", "*"], ["y", "*"]]}, outputs = "*", reads = [], updates = []}, graph.symbols = [{min = 1 : i64, multiple_of = 1 : i64, name = "n"}, {min = 1 : i64, multiple_of = 1 : i64, name = "m"}]} {
    %0 = "graph.reshape"(%arg0) {shape = #map2} : (tensor<?xf32, #map>) -> tensor<?x1xf32, #map2>
    %1 = "graph.reshape"(%arg1) {shape = #map3} : (tensor<?xf32, #map1>) -> tensor<1x?xf32, #map3>
    %2 = "graph.broadcast"(%0) {axes = array<i64: 0, 1>, shape = #map4} : (tensor<?x1xf32, #map2>) -> tensor<?x?xf32, #map4>
    %3 = "graph.broadcast"(%1) {axes = array<i64: 0, 1>, shape = #map4} : (tensor<1x?xf32, #map3>) -> tensor<?x?xf32, #map4>
    %4 = "graph.multiply"(%2, %3) : (tensor<?x?xf32, #map4>, tensor<?x?xf32, #map4>) -> tensor<?x?xf32, #map4>
    %5 = "graph.tanh"(%4) : (tensor<?x?xf32, #map4>) -> tensor<?x?xf32, #map4>
    %6 = "graph.reduce_sum"(%5) {axes = array<i64: 1>} : (tensor<?x?xf32, #map4>) -> tensor<?xf32, #map>
    return %6 : tensor<?xf32, #map>
  }
}

// Whether x < y, of numbers of which one is 0 and the other subnormal.
#in = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xi32> {
  %empty = tensor.empty() : tensor<4xi32>
  %z = linalg.generic {indexing_maps = [#in, #in, #in], iterator_types = ["parallel"]}
      ins(%x, %y : tensor<4xf32>, tensor<4xf32>) outs(%empty : tensor<4xi32>) {
  ^bb0(%a: f32, %b: f32, %_: i32):
    %less = arith.cmpf olt, %a, %b : f32
    %n = arith.extui %less : i1 to i32
    linalg.yield %n : i32
  } -> tensor<4xi32>
  return %z : tensor<4xi32>
}

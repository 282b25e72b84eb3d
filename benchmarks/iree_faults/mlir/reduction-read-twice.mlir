// s[:, None] * s of the sums s of rows: both reads become that of the part at hand.
#in = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#column = affine_map<(d0, d1) -> (d1)>
func.func @main(%x: tensor<6x5xf32>) -> tensor<6x6xf32> {
  %zero = arith.constant 0.0 : f32
  %line = tensor.empty() : tensor<6xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%line : tensor<6xf32>) -> tensor<6xf32>
  %s = linalg.generic {indexing_maps = [#in, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<6x5xf32>) outs(%zeros : tensor<6xf32>) {
  ^bb0(%e: f32, %total: f32):
    %t = arith.addf %total, %e : f32
    linalg.yield %t : f32
  } -> tensor<6xf32>
  %square = tensor.empty() : tensor<6x6xf32>
  %y = linalg.generic {indexing_maps = [#row, #column, #in], iterator_types = ["parallel", "parallel"]}
      ins(%s, %s : tensor<6xf32>, tensor<6xf32>) outs(%square : tensor<6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %_: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<6x6xf32>
  return %y : tensor<6x6xf32>
}

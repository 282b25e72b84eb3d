// Two slices of zeros, padded to the whole and added, in a branch.
#all = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @main(%x: tensor<4x4x4xf32>, %flag: i1) -> tensor<4x4x4xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x4x4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x4x4xf32>) -> tensor<4x4x4xf32>
  cf.cond_br %flag, ^bb1, ^bb2(%x : tensor<4x4x4xf32>)
^bb1:
  %first = tensor.extract_slice %zeros[0, 0, 0] [4, 1, 4] [1, 1, 1] : tensor<4x4x4xf32> to tensor<4x1x4xf32>
  %a = tensor.pad %first low[0, 3, 0] high[0, 0, 0] {
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %zero : f32
  } : tensor<4x1x4xf32> to tensor<4x4x4xf32>
  %rest = tensor.extract_slice %zeros[0, 1, 0] [4, 3, 4] [1, 1, 1] : tensor<4x4x4xf32> to tensor<4x3x4xf32>
  %b = tensor.pad %rest low[0, 0, 0] high[0, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %zero : f32
  } : tensor<4x3x4xf32> to tensor<4x4x4xf32>
  %y = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%a, %b : tensor<4x4x4xf32>, tensor<4x4x4xf32>) outs(%empty : tensor<4x4x4xf32>) {
  ^bb0(%e: f32, %f: f32, %_: f32):
    %s = arith.addf %e, %f : f32
    linalg.yield %s : f32
  } -> tensor<4x4x4xf32>
  cf.br ^bb2(%y : tensor<4x4x4xf32>)
^bb2(%z: tensor<4x4x4xf32>):
  return %z : tensor<4x4x4xf32>
}

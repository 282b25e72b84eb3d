// A product of a matrix and its transpose, without the maps that the op has by default:
// the parser of text adds them to the short form, nobody to the generic one.
func.func @main(%x: tensor<6x4xf32>) -> tensor<6x6xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x6xf32>
  %t = linalg.transpose ins(%x : tensor<6x4xf32>) outs(%e : tensor<4x6xf32>) permutation = [1, 0]
  %s = tensor.empty() : tensor<6x6xf32>
  %init = linalg.fill ins(%zero : f32) outs(%s : tensor<6x6xf32>) -> tensor<6x6xf32>
  %y = "linalg.matmul"(%x, %t, %init) <{operandSegmentSizes = array<i32: 2, 1>}> ({
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %q = arith.addf %c, %p : f32
    linalg.yield %q : f32
  }) : (tensor<6x4xf32>, tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
  return %y : tensor<6x6xf32>
}

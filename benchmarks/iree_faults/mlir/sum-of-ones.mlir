// The sum of what is one number, computed from memory: 25 ones.
#in = affine_map<(d0) -> (d0)>
#out = affine_map<(d0) -> ()>
func.func @main(%x: tensor<25xi32>) -> tensor<i32> {
  %zero = arith.constant 0 : i32
  %scalar = tensor.empty() : tensor<i32>
  %start = linalg.fill ins(%zero : i32) outs(%scalar : tensor<i32>) -> tensor<i32>
  %y = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["reduction"]}
      ins(%x : tensor<25xi32>) outs(%start : tensor<i32>) {
  ^bb0(%e: i32, %total: i32):
    %same = arith.cmpi eq, %e, %e : i32
    %one = arith.extui %same : i1 to i32
    %t = arith.addi %total, %one : i32
    linalg.yield %t : i32
  } -> tensor<i32>
  return %y : tensor<i32>
}

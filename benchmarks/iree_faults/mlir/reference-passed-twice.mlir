// A loop as blocks, which starts from one tensor three times: the branch to it is the
// last use of that.
#all = affine_map<(d0) -> (d0)>
#none = affine_map<() -> ()>
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = arith.constant dense<0> : tensor<i32>
  %one = arith.constant dense<1> : tensor<i32>
  %three = arith.constant dense<3> : tensor<i32>
  %empty = tensor.empty() : tensor<4xf32>
  %number = tensor.empty() : tensor<i32>
  %flag = tensor.empty() : tensor<i1>
  %y = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%e: f32, %_: f32):
    %p = math.absf %e : f32
    linalg.yield %p : f32
  } -> tensor<4xf32>
  cf.br ^loop(%zero, %y, %y, %y : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
^loop(%i: tensor<i32>, %a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>):
  %less = linalg.generic {indexing_maps = [#none, #none, #none], iterator_types = []}
      ins(%i, %three : tensor<i32>, tensor<i32>) outs(%flag : tensor<i1>) {
  ^bb0(%e: i32, %f: i32, %_: i1):
    %p = arith.cmpi slt, %e, %f : i32
    linalg.yield %p : i1
  } -> tensor<i1>
  %more = tensor.extract %less[] : tensor<i1>
  cf.cond_br %more, ^body, ^end
^body:
  %next = linalg.generic {indexing_maps = [#none, #none, #none], iterator_types = []}
      ins(%i, %one : tensor<i32>, tensor<i32>) outs(%number : tensor<i32>) {
  ^bb0(%e: i32, %f: i32, %_: i32):
    %p = arith.addi %e, %f : i32
    linalg.yield %p : i32
  } -> tensor<i32>
  %s = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel"]}
      ins(%a, %b : tensor<4xf32>, tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%e: f32, %f: f32, %_: f32):
    %p = arith.addf %e, %f : f32
    linalg.yield %p : f32
  } -> tensor<4xf32>
  cf.br ^loop(%next, %b, %c, %s : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
^end:
  return %a, %b, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// A loop starts from a; what comes after it multiplies its result by a + x.
#all = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%a: tensor<4x4xf32>, %x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %zero = arith.constant 0.0 : f32
  %two = arith.constant 2.0 : f32
  %empty = tensor.empty() : tensor<4x4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<4x4xf32>) outs(%empty : tensor<4x4xf32>) {
  ^bb0(%e: f32, %_: f32):
    %p = math.absf %e : f32
    linalg.yield %p : f32
  } -> tensor<4x4xf32>
  %y = scf.for %i = %c0 to %c5 step %c1 iter_args(%c = %b) -> (tensor<4x4xf32>) {
    %d = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
        ins(%c : tensor<4x4xf32>) outs(%empty : tensor<4x4xf32>) {
    ^bb0(%e: f32, %_: f32):
      %p = arith.mulf %e, %two : f32
      linalg.yield %p : f32
    } -> tensor<4x4xf32>
    scf.yield %d : tensor<4x4xf32>
  }
  %s = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%b, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%empty : tensor<4x4xf32>) {
  ^bb0(%e: f32, %f: f32, %_: f32):
    %p = arith.addf %e, %f : f32
    linalg.yield %p : f32
  } -> tensor<4x4xf32>
  %z = linalg.matmul ins(%y, %s : tensor<4x4xf32>, tensor<4x4xf32>) outs(%zeros : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %z : tensor<4x4xf32>
}

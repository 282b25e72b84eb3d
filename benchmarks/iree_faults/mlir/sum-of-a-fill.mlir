// The sums along rows of ones that no memory goes into.
#in = affine_map<(d0, d1) -> (d0, d1)>
#out = affine_map<(d0, d1) -> (d0)>
func.func @main(%x: tensor<?x4xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x4xf32>
  %whole = tensor.empty(%n) : tensor<?x4xf32>
  %ones = linalg.fill ins(%one : f32) outs(%whole : tensor<?x4xf32>) -> tensor<?x4xf32>
  %line = tensor.empty(%n) : tensor<?xf32>
  %start = linalg.fill ins(%zero : f32) outs(%line : tensor<?xf32>) -> tensor<?xf32>
  %y = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel", "reduction"]}
      ins(%ones : tensor<?x4xf32>) outs(%start : tensor<?xf32>) {
  ^bb0(%e: f32, %total: f32):
    %t = arith.addf %total, %e : f32
    linalg.yield %t : f32
  } -> tensor<?xf32>
  return %y : tensor<?xf32>
}

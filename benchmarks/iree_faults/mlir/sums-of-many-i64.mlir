// Sums of i64 along rows of 128, whose vectors SPIR-V cannot take apart.
func.func @sums(%x: tensor<64x128xf32>) -> tensor<64xf32> {
  %zero = arith.constant 0 : i64
  %empty = tensor.empty() : tensor<64xi64>
  %start = linalg.fill ins(%zero : i64) outs(%empty : tensor<64xi64>) -> tensor<64xi64>
  %y = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
    iterator_types = ["parallel", "reduction"]
  } ins(%x : tensor<64x128xf32>) outs(%start : tensor<64xi64>) {
  ^bb0(%one: f32, %sum: i64):
    %wide = arith.fptosi %one : f32 to i64
    %more = arith.addi %sum, %wide : i64
    linalg.yield %more : i64
  } -> tensor<64xi64>
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%y : tensor<64xi64>) outs(%e : tensor<64xf32>) {
  ^bb0(%a: i64, %b: f32):
    %c = arith.sitofp %a : i64 to f32
    linalg.yield %c : f32
  } -> tensor<64xf32>
  return %f : tensor<64xf32>
}

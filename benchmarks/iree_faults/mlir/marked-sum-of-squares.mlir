// A sum that asks to be split, of elements that another op computes.
#in = affine_map<(d0) -> (d0)>
#out = affine_map<(d0) -> ()>
func.func @main(%x: tensor<?xf32>) -> tensor<f32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %line = tensor.empty(%n) : tensor<?xf32>
  %scalar = tensor.empty() : tensor<f32>
  %start = linalg.fill ins(%zero : f32) outs(%scalar : tensor<f32>) -> tensor<f32>
  %p = linalg.generic {indexing_maps = [#in, #in], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf32>) outs(%line : tensor<?xf32>) {
  ^bb0(%e: f32, %_: f32):
    %s = arith.mulf %e, %e : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  %y = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["reduction"]}
      ins(%p : tensor<?xf32>) outs(%start : tensor<f32>) attrs = {iree_linalg_ext.split_reduction = [4096 : index]} {
  ^bb0(%e: f32, %total: f32):
    %t = arith.addf %total, %e fastmath<reassoc> : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  return %y : tensor<f32>
}

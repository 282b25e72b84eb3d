// A step of a program that changes its state, by a loop over elements.
#in = affine_map<(d0) -> (d0)>
util.global private mutable @state = dense<0.0> : tensor<65536xf32>
util.func public @main(%g: tensor<65536xf32>) {
  %s = util.global.load @state : tensor<65536xf32>
  %empty = tensor.empty() : tensor<65536xf32>
  %y = linalg.generic {indexing_maps = [#in, #in, #in], iterator_types = ["parallel"]}
      ins(%s, %g : tensor<65536xf32>, tensor<65536xf32>) outs(%empty : tensor<65536xf32>) {
  ^bb0(%e: f32, %f: f32, %_: f32):
    %p = arith.addf %e, %f : f32
    linalg.yield %p : f32
  } -> tensor<65536xf32>
  util.global.store %y, @state : tensor<65536xf32>
  util.return
}

// A loop stores into a global; what is loaded after it is returned.
util.global private mutable @held = dense<0.0> : tensor<4xf32>
#all = affine_map<(d0) -> (d0)>
util.func public @main(%x: tensor<4xf32>, %count: i32) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.index_cast %count : i32 to index
  %empty = tensor.empty() : tensor<4xf32>
  scf.for %i = %c0 to %n step %c1 {
    %old = util.global.load @held : tensor<4xf32>
    %new = linalg.elementwise <add> ins(%old, %x : tensor<4xf32>, tensor<4xf32>) outs(%empty : tensor<4xf32>) -> tensor<4xf32>
    util.global.store %new, @held : tensor<4xf32>
  }
  %y = util.global.load @held : tensor<4xf32>
  util.return %y : tensor<4xf32>
}

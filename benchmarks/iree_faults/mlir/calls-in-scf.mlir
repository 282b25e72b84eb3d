// A call in a branch of scf, of a function that takes and gives a tensor of any size.
util.func private @twice(%x: tensor<?xf32>) -> tensor<?xf32> attributes {inlining_policy = #util.inline.never} {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %empty = tensor.empty(%n) : tensor<?xf32>
  %y = linalg.elementwise <add> ins(%x, %x : tensor<?xf32>, tensor<?xf32>) outs(%empty : tensor<?xf32>) -> tensor<?xf32>
  util.return %y : tensor<?xf32>
}
util.func public @main(%x: tensor<?xf32>, %count: i32) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.index_cast %count : i32 to index
  %y = scf.for %i = %c0 to %n step %c1 iter_args(%v = %x) -> (tensor<?xf32>) {
    %w = util.call @twice(%v) : (tensor<?xf32>) -> tensor<?xf32>
    scf.yield %w : tensor<?xf32>
  }
  util.return %y : tensor<?xf32>
}

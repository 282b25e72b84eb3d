// A tensor of one bool that comes from behind a barrier.
util.func public @main() -> tensor<i1> {
  %false = arith.constant false
  %b = util.optimization_barrier %false : i1
  %y = tensor.from_elements %b : tensor<i1>
  util.return %y : tensor<i1>
}

// A loop writes one row a step of a tensor that it carries.
func.func @main(%x: tensor<1x1024xf32>, %all: tensor<1000x1024xf32>) -> tensor<1000x1024xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 1000 : index
  %y = scf.for %i = %c0 to %n step %c1 iter_args(%v = %all) -> (tensor<1000x1024xf32>) {
    %w = tensor.insert_slice %x into %v[%i, 0] [1, 1024] [1, 1] : tensor<1x1024xf32> into tensor<1000x1024xf32>
    scf.yield %w : tensor<1000x1024xf32>
  }
  return %y : tensor<1000x1024xf32>
}

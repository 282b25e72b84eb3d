// The transpose of a product of f64 matrices, of rows that a call decides.
func.func @main(%x: tensor<?x32xf64>, %k: tensor<32x32xf64>) -> tensor<32x?xf64> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f64
  %n = tensor.dim %x, %c0 : tensor<?x32xf64>
  %empty = tensor.empty(%n) : tensor<?x32xf64>
  %start = linalg.fill ins(%zero : f64) outs(%empty : tensor<?x32xf64>) -> tensor<?x32xf64>
  %y = linalg.matmul ins(%x, %k : tensor<?x32xf64>, tensor<32x32xf64>)
      outs(%start : tensor<?x32xf64>) -> tensor<?x32xf64>
  %turned = tensor.empty(%n) : tensor<32x?xf64>
  %z = linalg.transpose ins(%y : tensor<?x32xf64>) outs(%turned : tensor<32x?xf64>) permutation = [1, 0]
  return %z : tensor<32x?xf64>
}

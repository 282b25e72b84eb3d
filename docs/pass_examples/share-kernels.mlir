// Two kernels that differ in a zero point are one, which gets as numbers what depends on it.
#map = affine_map<(d0, d1) -> (d0, d1)>
module @aotc attributes {graph.target = "x86_64-v3"} {
  func.func @bytes2(%arg0: tensor<24x44xf32> {graph.kind = "input", graph.name = "x", graph.type = tensor<24x44xf32>}) -> (tensor<24x44xi8> {graph.kind = "output", graph.name = "0", graph.type = tensor<24x44xui8>}, tensor<24x44xi8> {graph.kind = "output", graph.name = "1", graph.type = tensor<24x44xui8>}) attributes {graph.entry = {inputs = {dict = [["x", "*"]]}, outputs = {list = ["*", "*"]}, reads = [], updates = []}, graph.symbols = []} {
    %cst = arith.constant dense<5.000000e-01> : tensor<f32>
    %cst_0 = arith.constant 5.000000e-01 : f32
    %0 = tensor.empty() : tensor<24x44xf32>
    %1 = linalg.fill ins(%cst_0 : f32) outs(%0 : tensor<24x44xf32>) -> tensor<24x44xf32>
    %2 = tensor.empty() : tensor<24x44xf32>
    %3 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %1 : tensor<24x44xf32>, tensor<24x44xf32>) outs(%2 : tensor<24x44xf32>) {
    ^bb0(%in: f32, %in_2: f32, %out: f32):
      %6 = arith.divf %in, %in_2 : f32
      linalg.yield %6 : f32
    } -> tensor<24x44xf32>
    %c1 = arith.constant 1 : index
    %4 = call @iree.quantization.kernel.dispatch(%3, %c1) : (tensor<24x44xf32>, index) -> tensor<24x44xi8>
    %c1_1 = arith.constant 1 : index
    %5 = call @iree.quantization_1.kernel.dispatch(%3, %c1_1) : (tensor<24x44xf32>, index) -> tensor<24x44xi8>
    return %4, %5 : tensor<24x44xi8>, tensor<24x44xi8>
  }
  module @quantization.kernel attributes {graph.kernel = {bytes_read = 4224 : i64, bytes_written = 1056 : i64, elements = ["()[s0] -> (1056)", "()[s0] -> (1056)"], family = "quantization", flops = 5280 : i64, ops = ["maximum", "minimum", "round_even", "add", "cast"], results = 1 : i64, schedule = "block 24, lanes 8", shares = 1 : i64, sizes = {}, tile = {block = 24 : i64, lanes = 8 : i64}, workgroups = [1, 1]}} {
    func.func @quantization.kernel(%arg0: memref<1056xf32>, %arg1: memref<1056xi8>, %arg2: index, %arg3: index) {
      %c1 = arith.constant 1 : index
      %c1_0 = arith.constant 1 : index
      %0 = arith.muli %c1, %c1_0 : index
      %c1_1 = arith.constant 1 : index
      %1 = arith.addi %arg2, %c1_1 : index
      %2 = arith.muli %arg2, %0 : index
      %3 = arith.divui %2, %arg3 : index
      %4 = arith.muli %1, %0 : index
      %5 = arith.divui %4, %arg3 : index
      %c1_2 = arith.constant 1 : index
      scf.for %arg4 = %3 to %5 step %c1_2 {
        %6 = arith.remui %arg4, %c1 : index
        %7 = arith.divui %arg4, %c1 : index
        %c24 = arith.constant 24 : index
        %c24_3 = arith.constant 24 : index
        %8 = arith.muli %6, %c24_3 : index
        %c24_4 = arith.constant 24 : index
        %9 = arith.addi %8, %c24_4 : index
        %10 = arith.minsi %9, %c24 : index
        %c1_5 = arith.constant 1 : index
        scf.for %arg5 = %8 to %10 step %c1_5 {
          %c44 = arith.constant 44 : index
          %11 = arith.muli %arg5, %c44 : index
          %c0 = arith.constant 0 : index
          %c40 = arith.constant 40 : index
          %c8 = arith.constant 8 : index
          scf.for %arg6 = %c0 to %c40 step %c8 {
            %22 = arith.addi %11, %arg6 : index
            %23 = vector.load %arg0[%22] : memref<1056xf32>, vector<8xf32>
            %cst_11 = arith.constant dense<-3.000000e+00> : vector<8xf32>
            %cst_12 = arith.constant dense<2.520000e+02> : vector<8xf32>
            %24 = arith.maxnumf %23, %cst_11 : vector<8xf32>
            %25 = arith.minnumf %24, %cst_12 : vector<8xf32>
            %cst_13 = arith.constant dense<0x4B400000> : vector<8xf32>
            %26 = arith.addf %25, %cst_13 : vector<8xf32>
            %27 = arith.bitcast %26 : vector<8xf32> to vector<8xi32>
            %cst_14 = arith.constant dense<-1262485501> : vector<8xi32>
            %28 = arith.addi %27, %cst_14 : vector<8xi32>
            %29 = arith.trunci %28 : vector<8xi32> to vector<8xi8>
            vector.store %29, %arg1[%22] : memref<1056xi8>, vector<8xi8>
          }
          %c40_6 = arith.constant 40 : index
          %12 = arith.addi %11, %c40_6 : index
          %13 = vector.constant_mask [4] : vector<8xi1>
          %cst = arith.constant dense<0.000000e+00> : vector<8xf32>
          %14 = vector.maskedload %arg0[%12], %13, %cst : memref<1056xf32>, vector<8xi1>, vector<8xf32> into vector<8xf32>
          %cst_7 = arith.constant dense<-3.000000e+00> : vector<8xf32>
          %cst_8 = arith.constant dense<2.520000e+02> : vector<8xf32>
          %15 = arith.maxnumf %14, %cst_7 : vector<8xf32>
          %16 = arith.minnumf %15, %cst_8 : vector<8xf32>
          %cst_9 = arith.constant dense<0x4B400000> : vector<8xf32>
          %17 = arith.addf %16, %cst_9 : vector<8xf32>
          %18 = arith.bitcast %17 : vector<8xf32> to vector<8xi32>
          %cst_10 = arith.constant dense<-1262485501> : vector<8xi32>
          %19 = arith.addi %18, %cst_10 : vector<8xi32>
          %20 = arith.trunci %19 : vector<8xi32> to vector<8xi8>
          %21 = vector.constant_mask [4] : vector<8xi1>
          vector.maskedstore %arg1[%12], %21, %20 : memref<1056xi8>, vector<8xi1>, vector<8xi8>
        }
      }
      return
    }
  }
  func.func private @iree.quantization.kernel.dispatch(tensor<24x44xf32>, index) -> tensor<24x44xi8> attributes {graph.iree_body = "%r:1 = flow.dispatch @\22quantization.kernel\22::@\22quantization.kernel\22[%1](%0) : (tensor<24x44xf32>) -> (tensor<24x44xi8>)\0Areturn %r#0 : tensor<24x44xi8>"}
  module @quantization_1.kernel attributes {graph.kernel = {bytes_read = 4224 : i64, bytes_written = 1056 : i64, elements = ["()[s0] -> (1056)", "()[s0] -> (1056)"], family = "quantization", flops = 5280 : i64, ops = ["maximum", "minimum", "round_even", "add", "cast"], results = 1 : i64, schedule = "block 24, lanes 8", shares = 1 : i64, sizes = {}, tile = {block = 24 : i64, lanes = 8 : i64}, workgroups = [1, 1]}} {
    func.func @quantization_1.kernel(%arg0: memref<1056xf32>, %arg1: memref<1056xi8>, %arg2: index, %arg3: index) {
      %c1 = arith.constant 1 : index
      %c1_0 = arith.constant 1 : index
      %0 = arith.muli %c1, %c1_0 : index
      %c1_1 = arith.constant 1 : index
      %1 = arith.addi %arg2, %c1_1 : index
      %2 = arith.muli %arg2, %0 : index
      %3 = arith.divui %2, %arg3 : index
      %4 = arith.muli %1, %0 : index
      %5 = arith.divui %4, %arg3 : index
      %c1_2 = arith.constant 1 : index
      scf.for %arg4 = %3 to %5 step %c1_2 {
        %6 = arith.remui %arg4, %c1 : index
        %7 = arith.divui %arg4, %c1 : index
        %c24 = arith.constant 24 : index
        %c24_3 = arith.constant 24 : index
        %8 = arith.muli %6, %c24_3 : index
        %c24_4 = arith.constant 24 : index
        %9 = arith.addi %8, %c24_4 : index
        %10 = arith.minsi %9, %c24 : index
        %c1_5 = arith.constant 1 : index
        scf.for %arg5 = %8 to %10 step %c1_5 {
          %c44 = arith.constant 44 : index
          %11 = arith.muli %arg5, %c44 : index
          %c0 = arith.constant 0 : index
          %c40 = arith.constant 40 : index
          %c8 = arith.constant 8 : index
          scf.for %arg6 = %c0 to %c40 step %c8 {
            %22 = arith.addi %11, %arg6 : index
            %23 = vector.load %arg0[%22] : memref<1056xf32>, vector<8xf32>
            %cst_11 = arith.constant dense<-1.000000e+02> : vector<8xf32>
            %cst_12 = arith.constant dense<1.550000e+02> : vector<8xf32>
            %24 = arith.maxnumf %23, %cst_11 : vector<8xf32>
            %25 = arith.minnumf %24, %cst_12 : vector<8xf32>
            %cst_13 = arith.constant dense<0x4B400000> : vector<8xf32>
            %26 = arith.addf %25, %cst_13 : vector<8xf32>
            %27 = arith.bitcast %26 : vector<8xf32> to vector<8xi32>
            %cst_14 = arith.constant dense<-1262485404> : vector<8xi32>
            %28 = arith.addi %27, %cst_14 : vector<8xi32>
            %29 = arith.trunci %28 : vector<8xi32> to vector<8xi8>
            vector.store %29, %arg1[%22] : memref<1056xi8>, vector<8xi8>
          }
          %c40_6 = arith.constant 40 : index
          %12 = arith.addi %11, %c40_6 : index
          %13 = vector.constant_mask [4] : vector<8xi1>
          %cst = arith.constant dense<0.000000e+00> : vector<8xf32>
          %14 = vector.maskedload %arg0[%12], %13, %cst : memref<1056xf32>, vector<8xi1>, vector<8xf32> into vector<8xf32>
          %cst_7 = arith.constant dense<-1.000000e+02> : vector<8xf32>
          %cst_8 = arith.constant dense<1.550000e+02> : vector<8xf32>
          %15 = arith.maxnumf %14, %cst_7 : vector<8xf32>
          %16 = arith.minnumf %15, %cst_8 : vector<8xf32>
          %cst_9 = arith.constant dense<0x4B400000> : vector<8xf32>
          %17 = arith.addf %16, %cst_9 : vector<8xf32>
          %18 = arith.bitcast %17 : vector<8xf32> to vector<8xi32>
          %cst_10 = arith.constant dense<-1262485404> : vector<8xi32>
          %19 = arith.addi %18, %cst_10 : vector<8xi32>
          %20 = arith.trunci %19 : vector<8xi32> to vector<8xi8>
          %21 = vector.constant_mask [4] : vector<8xi1>
          vector.maskedstore %arg1[%12], %21, %20 : memref<1056xi8>, vector<8xi1>, vector<8xi8>
        }
      }
      return
    }
  }
  func.func private @iree.quantization_1.kernel.dispatch(tensor<24x44xf32>, index) -> tensor<24x44xi8> attributes {graph.iree_body = "%r:1 = flow.dispatch @\22quantization_1.kernel\22::@\22quantization_1.kernel\22[%1](%0) : (tensor<24x44xf32>) -> (tensor<24x44xi8>)\0Areturn %r#0 : tensor<24x44xi8>"}
}

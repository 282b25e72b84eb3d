// The middle element of each sorted row of x, which has no columns: sorting by blocks,
// then reads at computed positions. Smaller modules did not show the fault.
#map = affine_map<()[s0] -> (-s0 + ((s0 + 31) floordiv 32) * 32)>
#map1 = affine_map<()[s0] -> (((s0 + 31) floordiv 32) * 32)>
#map2 = affine_map<()[s0] -> ((s0 + 31) floordiv 32)>
#map3 = affine_map<()[s0] -> (s0 - 1)>
#map4 = affine_map<(d0, d1) -> (d0, d1)>
#map5 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map6 = affine_map<(d0, d1, d2) -> ()>
#map7 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#map8 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
#map9 = affine_map<()[s0] -> (((s0 + 31) floordiv 32) * 32 - 1)>
#map10 = affine_map<(d0, d1) -> (d1)>
#map11 = affine_map<(d0, d1) -> ()>
module @aotc {
  func.func @main(%arg0: tensor<7x?xf32> {iree.abi.name = "x"}) -> tensor<7x1xf32> {
    %cst = arith.constant -2.14748365E+9 : f32
    %cst_0 = arith.constant 2.14748365E+9 : f32
    %cst_1 = arith.constant dense<5.000000e-01> : tensor<1xf32>
    %c0 = arith.constant 0 : index
    %c32_i64 = arith.constant 32 : i64
    %c2139095040_i32 = arith.constant 2139095040 : i32
    %c2147483647_i32 = arith.constant 2147483647 : i32
    %c-2147483648_i32 = arith.constant -2147483648 : i32
    %c-1_i32 = arith.constant -1 : i32
    %c32 = arith.constant 32 : index
    %cst_2 = arith.constant 0.000000e+00 : f32
    %c0_i32 = arith.constant 0 : i32
    %c0_i64 = arith.constant 0 : i64
    %c1 = arith.constant 1 : index
    %dim = tensor.dim %arg0, %c1 : tensor<7x?xf32>
    %0 = affine.apply #map()[%dim]
    %1 = affine.apply #map1()[%dim]
    %2 = tensor.empty(%1) : tensor<7x?xi32>
    %3 = tensor.empty(%1) : tensor<7x?xi64>
    %4 = affine.apply #map2()[%dim]
    %5 = tensor.empty(%4) : tensor<7x?x32xi64>
    %6 = linalg.fill ins(%c0_i64 : i64) outs(%5 : tensor<7x?x32xi64>) -> tensor<7x?x32xi64>
    %7 = tensor.empty(%dim) : tensor<7x?xi32>
    %8 = tensor.empty(%dim) : tensor<7x?xf32>
    %9 = affine.apply #map3()[%dim]
    %10 = arith.index_cast %9 : index to i64
    %11 = arith.sitofp %10 : i64 to f32
    %from_elements = tensor.from_elements %11 : tensor<f32>
    %12 = tensor.empty() : tensor<7x1xf32>
    %13 = tensor.empty() : tensor<7x1xi32>
    %14 = util.optimization_barrier %c0_i32 : i32
    %15 = util.optimization_barrier %c0_i64 : i64
    %padded = tensor.pad %arg0 low[0, 0] high[0, %0] {
    ^bb0(%arg1: index, %arg2: index):
      tensor.yield %cst_2 : f32
    } : tensor<7x?xf32> to tensor<7x?xf32>
    %16 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel"]} ins(%padded : tensor<7x?xf32>) outs(%2 : tensor<7x?xi32>) {
    ^bb0(%in: f32, %out: i32):
      %38 = arith.bitcast %in : f32 to i32
      %39 = arith.cmpf oeq, %in, %cst_2 : f32
      %40 = arith.select %39, %c0_i32, %38 : i32
      %41 = arith.cmpi slt, %40, %c0_i32 : i32
      %42 = arith.select %41, %c-1_i32, %c-2147483648_i32 : i32
      %43 = arith.xori %40, %42 : i32
      %44 = arith.andi %38, %c2147483647_i32 : i32
      %45 = arith.cmpi sgt, %44, %c2139095040_i32 : i32
      %46 = arith.select %45, %c-1_i32, %43 : i32
      %47 = linalg.index 1 : index
      %48 = arith.cmpi ult, %47, %dim : index
      %49 = arith.select %48, %46, %c-1_i32 : i32
      linalg.yield %49 : i32
    } -> tensor<7x?xi32>
    %17 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel"]} ins(%16 : tensor<7x?xi32>) outs(%3 : tensor<7x?xi64>) {
    ^bb0(%in: i32, %out: i64):
      %38 = arith.extui %in : i32 to i64
      %39 = arith.shli %38, %c32_i64 : i64
      %40 = linalg.index 1 : index
      %41 = arith.index_cast %40 : index to i64
      %42 = arith.ori %39, %41 : i64
      linalg.yield %42 : i64
    } -> tensor<7x?xi64>
    %expanded = tensor.expand_shape %17 [[0], [1, 2]] output_shape [7, %4, 32] : tensor<7x?xi64> into tensor<7x?x32xi64>
    %from_elements_3 = tensor.from_elements %15 : tensor<i64>
    %dim_4 = tensor.dim %expanded, %c1 : tensor<7x?x32xi64>
    %18 = tensor.empty(%dim_4) : tensor<7x?x32xi64>
    %19 = linalg.generic {indexing_maps = [#map5, #map6, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded, %from_elements_3 : tensor<7x?x32xi64>, tensor<i64>) outs(%18 : tensor<7x?x32xi64>) {
    ^bb0(%in: i64, %in_5: i64, %out: i64):
      %38 = arith.ori %in, %in_5 : i64
      linalg.yield %38 : i64
    } -> tensor<7x?x32xi64>
    %20 = linalg.generic {indexing_maps = [#map7, #map8, #map7], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%expanded, %19 : tensor<7x?x32xi64>, tensor<7x?x32xi64>) outs(%6 : tensor<7x?x32xi64>) {
    ^bb0(%in: i64, %in_5: i64, %out: i64):
      %38 = arith.cmpi ult, %in_5, %in : i64
      %39 = arith.extui %38 : i1 to i64
      %40 = arith.addi %out, %39 : i64
      linalg.yield %40 : i64
    } -> tensor<7x?x32xi64>
    %21 = linalg.generic {indexing_maps = [#map8, #map8, #map7], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%expanded, %20 : tensor<7x?x32xi64>, tensor<7x?x32xi64>) outs(%6 : tensor<7x?x32xi64>) {
    ^bb0(%in: i64, %in_5: i64, %out: i64):
      %38 = linalg.index 2 : index
      %39 = arith.index_cast %38 : index to i64
      %40 = arith.cmpi eq, %in_5, %39 : i64
      %41 = arith.select %40, %in, %out : i64
      linalg.yield %41 : i64
    } -> tensor<7x?x32xi64>
    %collapsed = tensor.collapse_shape %21 [[0], [1, 2]] : tensor<7x?x32xi64> into tensor<7x?xi64>
    cf.br ^bb1(%collapsed, %c32 : tensor<7x?xi64>, index)
  ^bb1(%22: tensor<7x?xi64>, %23: index):  // 2 preds: ^bb0, ^bb2
    %24 = arith.cmpi ult, %23, %1 : index
    cf.cond_br %24, ^bb2(%22, %23 : tensor<7x?xi64>, index), ^bb3(%22 : tensor<7x?xi64>)
  ^bb2(%25: tensor<7x?xi64>, %26: index):  // pred: ^bb1
    %27 = linalg.generic {indexing_maps = [#map4], iterator_types = ["parallel", "parallel"]} outs(%3 : tensor<7x?xi64>) {
    ^bb0(%out: i64):
      %38 = linalg.index 0 : index
      %39 = linalg.index 1 : index
      %40 = arith.addi %26, %26 : index
      %41 = arith.remui %39, %40 : index
      %42 = arith.subi %39, %41 : index
      %43 = arith.addi %42, %26 : index
      %44 = arith.minsi %43, %1 : index
      %45 = arith.addi %44, %26 : index
      %46 = arith.minsi %45, %1 : index
      %47 = arith.subi %46, %44 : index
      %48 = arith.subi %41, %47 : index
      %49 = arith.maxsi %48, %c0 : index
      %50 = arith.subi %44, %42 : index
      %51 = arith.minsi %41, %50 : index
      %52:2 = scf.while (%arg1 = %49, %arg2 = %51) : (index, index) -> (index, index) {
        %67 = arith.cmpi ult, %arg1, %arg2 : index
        scf.condition(%67) %arg1, %arg2 : index, index
      } do {
      ^bb0(%arg1: index, %arg2: index):
        %67 = arith.addi %arg1, %arg2 : index
        %68 = arith.shrui %67, %c1 : index
        %69 = arith.subi %41, %68 : index
        %70 = arith.subi %69, %c1 : index
        %71 = arith.addi %42, %68 : index
        %72 = arith.addi %44, %70 : index
        %73 = affine.apply #map9()[%dim]
        %74 = arith.minsi %71, %73 : index
        %75 = arith.maxsi %74, %c0 : index
        %extracted_6 = tensor.extract %25[%38, %75] : tensor<7x?xi64>
        %76 = arith.minsi %72, %73 : index
        %77 = arith.maxsi %76, %c0 : index
        %extracted_7 = tensor.extract %25[%38, %77] : tensor<7x?xi64>
        %78 = arith.cmpi ult, %extracted_6, %extracted_7 : i64
        %79 = arith.addi %68, %c1 : index
        %80 = arith.select %78, %79, %arg1 : index
        %81 = arith.select %78, %arg2, %68 : index
        scf.yield %80, %81 : index, index
      }
      %53 = arith.addi %42, %52#0 : index
      %54 = arith.subi %41, %52#0 : index
      %55 = arith.addi %44, %54 : index
      %56 = arith.cmpi uge, %55, %46 : index
      %57 = affine.apply #map9()[%dim]
      %58 = arith.minsi %53, %57 : index
      %59 = arith.maxsi %58, %c0 : index
      %extracted = tensor.extract %25[%38, %59] : tensor<7x?xi64>
      %60 = arith.minsi %55, %57 : index
      %61 = arith.maxsi %60, %c0 : index
      %extracted_5 = tensor.extract %25[%38, %61] : tensor<7x?xi64>
      %62 = arith.cmpi ult, %extracted, %extracted_5 : i64
      %63 = arith.ori %56, %62 : i1
      %64 = arith.cmpi ult, %53, %44 : index
      %65 = arith.andi %64, %63 : i1
      %66 = arith.select %65, %extracted, %extracted_5 : i64
      linalg.yield %66 : i64
    } -> tensor<7x?xi64>
    %28 = arith.addi %26, %26 : index
    cf.br ^bb1(%27, %28 : tensor<7x?xi64>, index)
  ^bb3(%29: tensor<7x?xi64>):  // pred: ^bb1
    %extracted_slice = tensor.extract_slice %29[0, 0] [7, %dim] [1, 1] : tensor<7x?xi64> to tensor<7x?xi64>
    %30 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel"]} ins(%extracted_slice : tensor<7x?xi64>) outs(%7 : tensor<7x?xi32>) {
    ^bb0(%in: i64, %out: i32):
      %38 = arith.trunci %in : i64 to i32
      linalg.yield %38 : i32
    } -> tensor<7x?xi32>
    %31 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel"]} ins(%30 : tensor<7x?xi32>) outs(%8 : tensor<7x?xf32>) {
    ^bb0(%in: i32, %out: f32):
      %38 = arith.maxsi %9, %c0 : index
      %39 = arith.index_cast %38 : index to i32
      %40 = arith.minsi %in, %39 : i32
      %41 = arith.maxsi %40, %c0_i32 : i32
      %42 = arith.index_cast %41 : i32 to index
      %43 = linalg.index 0 : index
      %extracted = tensor.extract %arg0[%43, %42] : tensor<7x?xf32>
      linalg.yield %extracted : f32
    } -> tensor<7x?xf32>
    %32 = linalg.generic {indexing_maps = [#map10, #map4], iterator_types = ["parallel", "parallel"]} ins(%cst_1 : tensor<1xf32>) outs(%12 : tensor<7x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<7x1xf32>
    %33 = linalg.generic {indexing_maps = [#map11, #map4], iterator_types = ["parallel", "parallel"]} ins(%from_elements : tensor<f32>) outs(%12 : tensor<7x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<7x1xf32>
    %34 = linalg.generic {indexing_maps = [#map4, #map4, #map4], iterator_types = ["parallel", "parallel"]} ins(%32, %33 : tensor<7x1xf32>, tensor<7x1xf32>) outs(%12 : tensor<7x1xf32>) {
    ^bb0(%in: f32, %in_5: f32, %out: f32):
      %38 = arith.mulf %in, %in_5 : f32
      linalg.yield %38 : f32
    } -> tensor<7x1xf32>
    %35 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel"]} ins(%34 : tensor<7x1xf32>) outs(%12 : tensor<7x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %38 = math.floor %in : f32
      linalg.yield %38 : f32
    } -> tensor<7x1xf32>
    %36 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel"]} ins(%35 : tensor<7x1xf32>) outs(%13 : tensor<7x1xi32>) {
    ^bb0(%in: f32, %out: i32):
      %38 = arith.cmpf ole, %cst_0, %in : f32
      %39 = arith.cmpf ole, %in, %cst : f32
      %40 = arith.ori %38, %39 : i1
      %41 = arith.bitcast %in : f32 to i32
      %42 = arith.andi %41, %c2147483647_i32 : i32
      %43 = arith.cmpi sgt, %42, %c2139095040_i32 : i32
      %44 = arith.ori %40, %43 : i1
      %45 = arith.select %44, %cst_2, %in : f32
      %46 = math.absf %45 : f32
      %47 = math.floor %46 : f32
      %48 = arith.bitcast %45 : f32 to i32
      %49 = arith.cmpi slt, %48, %c0_i32 : i32
      %50 = arith.negf %47 : f32
      %51 = arith.select %49, %50, %47 : f32
      %52 = arith.fptosi %51 : f32 to i32
      %53 = arith.select %38, %c2147483647_i32, %52 : i32
      %54 = arith.select %39, %c-2147483648_i32, %53 : i32
      linalg.yield %54 : i32
    } -> tensor<7x1xi32>
    %37 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel"]} ins(%36 : tensor<7x1xi32>) outs(%12 : tensor<7x1xf32>) {
    ^bb0(%in: i32, %out: f32):
      %38 = arith.maxsi %9, %c0 : index
      %39 = arith.index_cast %38 : index to i32
      %40 = arith.minsi %in, %39 : i32
      %41 = arith.maxsi %40, %c0_i32 : i32
      %42 = arith.index_cast %41 : i32 to index
      %43 = linalg.index 0 : index
      %extracted = tensor.extract %31[%43, %42] : tensor<7x?xf32>
      linalg.yield %extracted : f32
    } -> tensor<7x1xf32>
    return %37 : tensor<7x1xf32>
  }
}


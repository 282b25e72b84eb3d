// A dispatch that is given 70 numbers, and a CPU takes 64.
#in = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<4xi32>,
    %n0: i32, %n1: i32, %n2: i32, %n3: i32, %n4: i32, %n5: i32, %n6: i32,
    %n7: i32, %n8: i32, %n9: i32, %n10: i32, %n11: i32, %n12: i32, %n13: i32,
    %n14: i32, %n15: i32, %n16: i32, %n17: i32, %n18: i32, %n19: i32, %n20: i32,
    %n21: i32, %n22: i32, %n23: i32, %n24: i32, %n25: i32, %n26: i32, %n27: i32,
    %n28: i32, %n29: i32, %n30: i32, %n31: i32, %n32: i32, %n33: i32, %n34: i32,
    %n35: i32, %n36: i32, %n37: i32, %n38: i32, %n39: i32, %n40: i32, %n41: i32,
    %n42: i32, %n43: i32, %n44: i32, %n45: i32, %n46: i32, %n47: i32, %n48: i32,
    %n49: i32, %n50: i32, %n51: i32, %n52: i32, %n53: i32, %n54: i32, %n55: i32,
    %n56: i32, %n57: i32, %n58: i32, %n59: i32, %n60: i32, %n61: i32, %n62: i32,
    %n63: i32, %n64: i32, %n65: i32, %n66: i32, %n67: i32, %n68: i32, %n69: i32) -> tensor<4xi32> {
  %empty = tensor.empty() : tensor<4xi32>
  %y = linalg.generic {indexing_maps = [#in, #in], iterator_types = ["parallel"]}
      ins(%x : tensor<4xi32>) outs(%empty : tensor<4xi32>) {
  ^bb0(%e: i32, %_: i32):
    %s0 = arith.xori %e, %n0 : i32
    %s1 = arith.addi %s0, %n1 : i32
    %s2 = arith.xori %s1, %n2 : i32
    %s3 = arith.addi %s2, %n3 : i32
    %s4 = arith.xori %s3, %n4 : i32
    %s5 = arith.addi %s4, %n5 : i32
    %s6 = arith.xori %s5, %n6 : i32
    %s7 = arith.addi %s6, %n7 : i32
    %s8 = arith.xori %s7, %n8 : i32
    %s9 = arith.addi %s8, %n9 : i32
    %s10 = arith.xori %s9, %n10 : i32
    %s11 = arith.addi %s10, %n11 : i32
    %s12 = arith.xori %s11, %n12 : i32
    %s13 = arith.addi %s12, %n13 : i32
    %s14 = arith.xori %s13, %n14 : i32
    %s15 = arith.addi %s14, %n15 : i32
    %s16 = arith.xori %s15, %n16 : i32
    %s17 = arith.addi %s16, %n17 : i32
    %s18 = arith.xori %s17, %n18 : i32
    %s19 = arith.addi %s18, %n19 : i32
    %s20 = arith.xori %s19, %n20 : i32
    %s21 = arith.addi %s20, %n21 : i32
    %s22 = arith.xori %s21, %n22 : i32
    %s23 = arith.addi %s22, %n23 : i32
    %s24 = arith.xori %s23, %n24 : i32
    %s25 = arith.addi %s24, %n25 : i32
    %s26 = arith.xori %s25, %n26 : i32
    %s27 = arith.addi %s26, %n27 : i32
    %s28 = arith.xori %s27, %n28 : i32
    %s29 = arith.addi %s28, %n29 : i32
    %s30 = arith.xori %s29, %n30 : i32
    %s31 = arith.addi %s30, %n31 : i32
    %s32 = arith.xori %s31, %n32 : i32
    %s33 = arith.addi %s32, %n33 : i32
    %s34 = arith.xori %s33, %n34 : i32
    %s35 = arith.addi %s34, %n35 : i32
    %s36 = arith.xori %s35, %n36 : i32
    %s37 = arith.addi %s36, %n37 : i32
    %s38 = arith.xori %s37, %n38 : i32
    %s39 = arith.addi %s38, %n39 : i32
    %s40 = arith.xori %s39, %n40 : i32
    %s41 = arith.addi %s40, %n41 : i32
    %s42 = arith.xori %s41, %n42 : i32
    %s43 = arith.addi %s42, %n43 : i32
    %s44 = arith.xori %s43, %n44 : i32
    %s45 = arith.addi %s44, %n45 : i32
    %s46 = arith.xori %s45, %n46 : i32
    %s47 = arith.addi %s46, %n47 : i32
    %s48 = arith.xori %s47, %n48 : i32
    %s49 = arith.addi %s48, %n49 : i32
    %s50 = arith.xori %s49, %n50 : i32
    %s51 = arith.addi %s50, %n51 : i32
    %s52 = arith.xori %s51, %n52 : i32
    %s53 = arith.addi %s52, %n53 : i32
    %s54 = arith.xori %s53, %n54 : i32
    %s55 = arith.addi %s54, %n55 : i32
    %s56 = arith.xori %s55, %n56 : i32
    %s57 = arith.addi %s56, %n57 : i32
    %s58 = arith.xori %s57, %n58 : i32
    %s59 = arith.addi %s58, %n59 : i32
    %s60 = arith.xori %s59, %n60 : i32
    %s61 = arith.addi %s60, %n61 : i32
    %s62 = arith.xori %s61, %n62 : i32
    %s63 = arith.addi %s62, %n63 : i32
    %s64 = arith.xori %s63, %n64 : i32
    %s65 = arith.addi %s64, %n65 : i32
    %s66 = arith.xori %s65, %n66 : i32
    %s67 = arith.addi %s66, %n67 : i32
    %s68 = arith.xori %s67, %n68 : i32
    %s69 = arith.addi %s68, %n69 : i32
    linalg.yield %s69 : i32
  } -> tensor<4xi32>
  return %y : tensor<4xi32>
}

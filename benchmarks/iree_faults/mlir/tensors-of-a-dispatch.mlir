// A dispatch that reads 33 tensors, of which each is bound by itself; a call binds 32.
#in = affine_map<(d0) -> (d0)>
func.func @main(%x0: tensor<64xf32>, %x1: tensor<64xf32>, %x2: tensor<64xf32>, %x3: tensor<64xf32>,
    %x4: tensor<64xf32>, %x5: tensor<64xf32>, %x6: tensor<64xf32>, %x7: tensor<64xf32>,
    %x8: tensor<64xf32>, %x9: tensor<64xf32>, %x10: tensor<64xf32>, %x11:
    tensor<64xf32>, %x12: tensor<64xf32>, %x13: tensor<64xf32>, %x14: tensor<64xf32>,
    %x15: tensor<64xf32>, %x16: tensor<64xf32>, %x17: tensor<64xf32>, %x18:
    tensor<64xf32>, %x19: tensor<64xf32>, %x20: tensor<64xf32>, %x21: tensor<64xf32>,
    %x22: tensor<64xf32>, %x23: tensor<64xf32>, %x24: tensor<64xf32>, %x25:
    tensor<64xf32>, %x26: tensor<64xf32>, %x27: tensor<64xf32>, %x28: tensor<64xf32>,
    %x29: tensor<64xf32>, %x30: tensor<64xf32>, %x31: tensor<64xf32>, %x32:
    tensor<64xf32>) -> tensor<64xf32> {
  %empty = tensor.empty() : tensor<64xf32>
  %y = linalg.generic {indexing_maps = [#in, #in, #in, #in, #in, #in, #in, #in, #in, #in, #in, #in, #in, #in, #in, #in, #in,
      #in, #in, #in, #in, #in, #in, #in, #in, #in, #in, #in, #in, #in, #in, #in, #in, #in],
      iterator_types = ["parallel"]}
      ins(%x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7, %x8, %x9, %x10, %x11, %x12, %x13, %x14,
      %x15, %x16, %x17, %x18, %x19, %x20, %x21, %x22, %x23, %x24, %x25, %x26, %x27, %x28,
      %x29, %x30, %x31, %x32
      : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>,
      tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>,
      tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>,
      tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>,
      tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>,
      tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>,
      tensor<64xf32>, tensor<64xf32>, tensor<64xf32>)
      outs(%empty : tensor<64xf32>) {
  ^bb0(%e0: f32, %e1: f32, %e2: f32, %e3: f32, %e4: f32, %e5: f32, %e6: f32, %e7: f32, %e8:
      f32, %e9: f32, %e10: f32, %e11: f32, %e12: f32, %e13: f32, %e14: f32, %e15: f32,
      %e16: f32, %e17: f32, %e18: f32, %e19: f32, %e20: f32, %e21: f32, %e22: f32, %e23:
      f32, %e24: f32, %e25: f32, %e26: f32, %e27: f32, %e28: f32, %e29: f32, %e30: f32,
      %e31: f32, %e32: f32, %_: f32):
    %s1 = arith.addf %e0, %e1 : f32
    %s2 = arith.addf %s1, %e2 : f32
    %s3 = arith.addf %s2, %e3 : f32
    %s4 = arith.addf %s3, %e4 : f32
    %s5 = arith.addf %s4, %e5 : f32
    %s6 = arith.addf %s5, %e6 : f32
    %s7 = arith.addf %s6, %e7 : f32
    %s8 = arith.addf %s7, %e8 : f32
    %s9 = arith.addf %s8, %e9 : f32
    %s10 = arith.addf %s9, %e10 : f32
    %s11 = arith.addf %s10, %e11 : f32
    %s12 = arith.addf %s11, %e12 : f32
    %s13 = arith.addf %s12, %e13 : f32
    %s14 = arith.addf %s13, %e14 : f32
    %s15 = arith.addf %s14, %e15 : f32
    %s16 = arith.addf %s15, %e16 : f32
    %s17 = arith.addf %s16, %e17 : f32
    %s18 = arith.addf %s17, %e18 : f32
    %s19 = arith.addf %s18, %e19 : f32
    %s20 = arith.addf %s19, %e20 : f32
    %s21 = arith.addf %s20, %e21 : f32
    %s22 = arith.addf %s21, %e22 : f32
    %s23 = arith.addf %s22, %e23 : f32
    %s24 = arith.addf %s23, %e24 : f32
    %s25 = arith.addf %s24, %e25 : f32
    %s26 = arith.addf %s25, %e26 : f32
    %s27 = arith.addf %s26, %e27 : f32
    %s28 = arith.addf %s27, %e28 : f32
    %s29 = arith.addf %s28, %e29 : f32
    %s30 = arith.addf %s29, %e30 : f32
    %s31 = arith.addf %s30, %e31 : f32
    %s32 = arith.addf %s31, %e32 : f32
    linalg.yield %s32 : f32
  } -> tensor<64xf32>
  return %y : tensor<64xf32>
}

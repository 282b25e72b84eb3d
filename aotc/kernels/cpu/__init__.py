"""The emitter of kernels for processors, in upstream dialects of MLIR.

`dispatch` makes a function over memrefs and the numbers of a workgroup of a region, and
is all that the rest of the compiler calls. A function for each family (`emitters`)
writes its body, with what `vectors`, `loops` and `walks` give it. What a region
computes beside its anchor, it computes by the ops' own `lower` rules, on vectors
(`epilogue`). How the work is cut up was chosen before (`aotc.kernels.planning`).
"""

"""Kernels for processors, written in upstream dialects of MLIR.

A region of the graph (`aotc.dialects.fusion`) and a model of the target's processor
(`machine`) make a function over memrefs and the numbers of a workgroup (`dispatch`).
What a region can be, passes ask the target's `capabilities`: a table of families
(`families`), each of which says what its kernels take, and how their work is cut up,
which is data (`tile`) chosen by an analytic model. A Python function for each family
(`emitters`) writes the code, with what `vectors` gives it. What a region computes
beside its anchor, it computes by the ops' own `lower` rules, on vectors (`epilogue`).
"""

"""Kernels for processors, written in upstream dialects of MLIR.

A region of the graph (`aotc.dialects.fusion`) and a model of the target's processor
(`machine`) make a function over memrefs and the numbers of a workgroup (`dispatch`).
Each family (`families`) is a Python function that writes such code with what `vectors`
gives it; how its work is cut up is data (`tile`), chosen by an analytic model. What a
region computes beside its anchor, it computes by the ops' own `lower` rules, on vectors
(`epilogue`).
"""

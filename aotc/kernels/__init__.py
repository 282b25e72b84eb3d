"""Kernels: computations of regions of the graph, and emitters of their code.

What a region (`aotc.dialects.functions.fusion`) can be, passes ask the target's
`capabilities`: a table of families (`families`), each of which says what its kernels
take, and how their work is cut up, which is data chosen by an analytic model of the
target's processor (`planning`, `machine`). What a region computes is a term (`terms`),
which NumPy can evaluate (`reference`). The code is written by an emitter: that for
processors is `cpu`, which only the pass that lowers regions imports. What of a lowered
module is a kernel, `lowered` says.
"""

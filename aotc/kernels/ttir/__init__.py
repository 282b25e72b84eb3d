"""Evaluates the text of Triton's IR (TTIR) in NumPy: the proof of GPU kernels.

    text → `reading` → steps → `evaluator`, by `rules`, on `memory`

A kernel is run program by program of its grid, on whole tensors, as Triton defines its
IR. What a device would do silently is an error here: an access outside of a buffer, a
read of what nothing has written, a result of which elements are left out, and two lanes
or two programs that access one address of which at least one writes it.

It proves the IR, so neither what Triton makes of it nor what a device does.
"""

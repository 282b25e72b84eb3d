"""Writes kernels of GPUs as text of Triton's IR, of the terms of regions.

    term → `emitter` → text, grid, schedule → `compiling` → PTX or hsaco

One emission serves every GPU: what differs between chips is a schedule (`schedules`),
which a model of the chip chooses (`machines`). `ops` writes ops, `frames` the tiles
that programs compute and where their elements lie, `lifting` elementwise ops on tiles,
by the rules that ops have for elements; `products`, `rows` and `elements` are the forms
that terms have. What of it is right, `aotc.kernels.ttir` says, which evaluates it.
"""

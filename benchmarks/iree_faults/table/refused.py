"""Code that IREE does not compile, or dies of."""

from __future__ import annotations

import numpy as np

from .. import runs
from ..fault import Fault, Symptom
from ..witnesses import CompilerDies, Dies, Elsewhere, Fails, Refused, Shows, Source

_VECTOR_DISTRIBUTION = "--iree-codegen-llvmgpu-use-reduction-vector-distribution"
_AGGRESSIVE = "--iree-dispatch-creation-enable-aggressive-fusion"
_NOT_DISTRIBUTED = (
    "write affecting operations on global resources are restricted to workgroup "
    "distributed contexts"
)
_OF_ANOTHER_SIZE = "has shape's dimension #0 to be 4, but found 3"


def _refused(name: str, message: str, **more: str) -> Refused:
    """Return the witness of a module that IREE refuses with a message."""
    return Refused(Source(name, **more), message)


ROWS = (
    Fault(
        "reads-with-gaps",
        Symptom.REFUSED,
        "Fuses a slice, and a plain copy of one, into what reads it, and has no code "
        "for reads by position from memory whose last axis has a stride.",
        (
            "dialects/lowering/sources.py: Note [reads with gaps]",
            "dialects/ops/slicing.py: _copy_slice",
            "dialects/ops/windows.py: _fold_offsets",
            "aotc/importers/onnx/ops/signals.py: _complex",
        ),
        _refused("reads-with-gaps", "builtin.unrealized_conversion_cast"),
    ),
    Fault(
        "widened-reads",
        Symptom.REFUSED,
        "Computes what widens its input again in whatever reads it; where that reads "
        "in steps, the whole of it, on the stack.",
        (
            "dialects/lowering/sources.py: Note [widened reads]",
            "dialects/ops/quantization.py: ByteSoftmax.decompose",
        ),
        _refused("widened-reads", "stack allocation size overflows"),
    ),
    Fault(
        "sums-of-many-i64",
        Symptom.REFUSED,
        "Has no code for Vulkan for sums of i64 along a last axis that it takes four "
        "elements of at a time.",
        ("dialects/ops/quantization.py: _sum_of_halves",),
        _refused(
            "sums-of-many-i64",
            "vector.extract_strided_slice",
            target="vulkan",
            level="O0",
        ),
    ),
    Fault(
        "parts-of-fills",
        Symptom.REFUSED,
        "Makes a step of a fill and of the slice of it that is joined with others, and "
        "has no code for it where a reader gives that another shape.",
        ("dialects/lowering/sources.py: Note [parts of fills]",),
        _refused("parts-of-fills", _NOT_DISTRIBUTED),
    ),
    Fault(
        "slice-of-one-element",
        Symptom.REFUSED,
        "At O0, merges an expansion of a slice of one element into the slice, whose "
        "result then has a higher rank than its source.",
        ("dialects/lowering/slices.py: Note [slices of one element]",),
        _refused("slice-of-one-element", "expected rank to be smaller", level="O0"),
    ),
    Fault(
        "sums-of-products",
        Symptom.REFUSED,
        "Makes a contraction of a sum of products over several axes of which one "
        "factor has only the last, and refuses that.",
        ("dialects/ops/reduction.py: Note [sums of products]",),
        _refused(
            "sums-of-products",
            "'vector.contract' op invalid accumulator/result vector shape",
        ),
    ),
    Fault(
        "sum-of-all-of-a-product",
        Symptom.REFUSED,
        "Merges a reduction over two axes of a product whose sizes a call decides with "
        "the product, where sums are split into blocks, and wants it on the stack.",
        ("passes/double_reads.py: Note [sums of all of a product]",),
        Shows(runs.compile_the_sum_of_all_of_a_product),
    ),
    Fault(
        "sums-of-parts-of-unknown-size",
        Symptom.REFUSED,
        "On vmvx, cuts three axes of a product, a convolution or a pool into parts, "
        "and wants memory for 2**53 places along another one of symbolic size, where "
        "an elementwise op is merged into it.",
        ("passes/double_reads.py: Note [sums of parts of unknown size]",),
        Fails(
            Source("sums-of-parts-of-unknown-size", "vmvx", level="O0"),
            (
                np.ones((1, 9, 6, 4), np.float32),
                np.ones((4, 8), np.float32),
                np.ones(9, np.float32),
            ),
            "RESOURCE_EXHAUSTED",
        ),
    ),
    Fault(
        "sums-around-an-axis",
        Symptom.REFUSED,
        "Vectorises the axis that stays, too, of a sum over those around it of which "
        "one is of symbolic size, and takes more vectors than the stack has.",
        ("aotc/backend/__init__.py: with_fewer_vectors",),
        Shows(runs.compile_sums_around_an_axis),
    ),
    Fault(
        "sums-of-sums",
        Symptom.REFUSED,
        "Merges a sum with another that reads its result and goes over an axis of "
        "symbolic size and a fixed one, vectorises all axes at once, and takes more "
        "vectors than the stack has.",
        ("passes/double_reads.py: Note [sums of sums]",),
        Shows(runs.compile_a_mean_of_losses),
    ),
    Fault(
        "many-sums-before-a-long-one",
        Symptom.REFUSED,
        "Makes one dispatch of sums over three axes of which one is of symbolic size, "
        "and takes more vectors for it than the stack has.",
        ("dialects/lowering/summation.py: with_few_axes",),
        Shows(runs.compile_many_sums_before_a_long_one),
    ),
    Fault(
        "pool-of-one-window",
        Symptom.REFUSED,
        "Takes an axis of an image that has one window for one of the window's size.",
        ("dialects/ops/pooling.py: _reached_type",),
        _refused("pool-of-one-window", _OF_ANOTHER_SIZE),
    ),
    Fault(
        "depthwise-of-one-window",
        Symptom.REFUSED,
        "The same in a depthwise convolution.",
        ("dialects/ops/convolution_lowering.py: _sizes_seen",),
        _refused("depthwise-of-one-window", _OF_ANOTHER_SIZE),
    ),
    Fault(
        "part-without-elements",
        Symptom.REFUSED,
        "Takes a part without elements beside one of one element for one of one "
        "element, too.",
        ("dialects/ops/slicing.py: Concatenate.lower",),
        _refused("part-without-elements", "does not match inferred shape"),
    ),
    Fault(
        "parts-of-a-known-size",
        Symptom.REFUSED,
        "Refuses a known size of joined parts whose sizes are not known.",
        ("dialects/ops/slicing.py: Concatenate.lower",),
        _refused("parts-of-a-known-size", "number of source_dims must match"),
    ),
    Fault(
        "loop-start-fused",
        Symptom.REFUSED,
        "Puts what a loop starts from and what is computed after it of the same values "
        "into one dispatch. (In loops of `scf` alone: the same as blocks is compiled.)",
        ("dialects/control/__init__.py: Note [what loops start from]",),
        _refused("loop-start-fused", "circular dependency"),
    ),
    Fault(
        "calls-in-scf",
        Symptom.REFUSED,
        "Passes the sizes of a tensor on with it where a function is called, but "
        "forgets calls in regions of `scf`.",
        ("dialects/lowering/blocks.py: module",),
        _refused("calls-in-scf", "'util.call' op function type mismatch"),
    ),
    Fault(
        "bool-behind-a-barrier",
        Symptom.REFUSED,
        "Keeps bools as bytes, and refuses a tensor of one from behind a barrier.",
        ("dialects/lowering/variation.py: _bits_of",),
        _refused("bool-behind-a-barrier", "'tensor.from_elements' op failed to verify"),
    ),
    Fault(
        "shared-fill-of-64-bits",
        Symptom.REFUSED,
        "Loses a fill of 64-bit elements with another number than 0 that two ops "
        "share.",
        (
            "dialects/lowering/scans.py: module",
            "dialects/iree_text/bodies.py: scatter",
        ),
        _refused("shared-fill-of-64-bits", "used resource not listed in explicit"),
    ),
    Fault(
        "scatter-of-narrow-positions",
        Symptom.REFUSED,
        "Merges a scatter with what computes its updates, or its rows from integers of "
        "8 or 16 bits, and wants that on the stack.",
        ("dialects/iree_text/bodies.py: scatter",),
        _refused("scatter-of-narrow-positions", "exceeded stack allocation limit"),
    ),
    Fault(
        "functions-of-f64",
        Symptom.REFUSED,
        "Has no f64 code for tanh, sin, cos and the arc functions.",
        ("dialects/lowering/approximations.py: module",),
        _refused("sin-of-f64", "undefined symbol: sin"),
    ),
    Fault(
        "remainder-of-f64",
        Symptom.REFUSED,
        "Has no f64 code for the remainder of a division.",
        ("dialects/lowering/scalars.py: remainder",),
        _refused("remainder-of-f64", "undefined symbol: fmod"),
    ),
    Fault(
        "integers-to-bf16",
        Symptom.REFUSED,
        "Makes one conversion of i32 → f32 → bf16, a call of what its linker lacks.",
        ("dialects/lowering/conversion.py: _round_to_bf16",),
        _refused("integers-to-bf16", "undefined symbol: __truncsfbf2"),
    ),
    Fault(
        "f64-to-f16",
        Symptom.REFUSED,
        "Makes a call of the conversion of f64 to f16, which its linker lacks.",
        ("dialects/lowering/conversion.py: _round_to",),
        _refused("f64-to-f16", "undefined symbol: __truncdfhf2"),
        not_reproduced="nor for x86_64-v2, aarch64 and riscv64, of 1, 5, 1000 or any "
        "number of elements",
    ),
    Fault(
        "sum-over-nothing",
        Symptom.DIES,
        "At O0, dies of a product whose contracted axis has no elements.",
        ("dialects/ops/contraction.py: DotGeneral.lower",),
        CompilerDies(Source("sum-over-nothing", level="O0"), "SIGFPE"),
    ),
    Fault(
        "matmul-without-maps",
        Symptom.DIES,
        "At O0, dies of a product of matrices that leaves its maps to their default, "
        "where a factor is transposed.",
        ("dialects/lowering/__init__.py: Lowering.matmul",),
        CompilerDies(Source("matmul-without-maps", level="O0"), "SIGSEGV"),
    ),
    Fault(
        "f64-products-with-peeling",
        Symptom.REFUSED,
        "Takes too many vectors at once for products of f64 matrices, where loops for "
        "AVX-512 are peeled.",
        ("aotc/backend/__init__.py: with_fewer_vectors",),
        _refused(
            "f64-products-with-peeling",
            "operations with large vector sizes",
            target="x86_64-v4",
        ),
    ),
    Fault(
        "aggressive-fusion",
        Symptom.REFUSED,
        'Fuses reductions that share an operand ("operand #0 does not dominate this '
        'use").',
        ("aotc/backend/__init__.py: COMMON_FLAGS",),
        Refused(
            Source(
                "aggressive-fusion",
                without=(_AGGRESSIVE,),
                flags=(f"{_AGGRESSIVE}=true",),
            ),
            "does not dominate this use",
        ),
        not_reproduced="with the flag on, the training steps of examples/digits and "
        "examples/resnet compile; that of examples/bert exceeds the stack",
        upstream=("https://github.com/iree-org/iree/issues/24725",),
    ),
    Fault(
        "strided-blocks-of-sums",
        Symptom.REFUSED,
        "Makes no code of blocks of the derivatives of filters, which sum over rows "
        "and windows.",
        ("aotc/worker/long_sums.py: _can_be_split",),
        _refused("strided-blocks-of-sums", "is out-of-bounds"),
        not_reproduced="nor by derivatives of 18 convolutions, in steps of 1 to 3, "
        "grouped and depthwise, with `_can_be_split` always true, for x86-64",
    ),
    Fault(
        "blocks-of-sums-on-the-stack",
        Symptom.REFUSED,
        "Copies the part of all blocks' sums in which the sum of a block starts to the "
        "stack.",
        ("aotc/worker/long_sums.py: _give_own_zeros",),
        _refused("blocks-of-sums-on-the-stack", "exceeded stack allocation limit"),
    ),
    Fault(
        "numbers-of-a-dispatch",
        Symptom.REFUSED,
        "Makes dispatches of more than the 64 numbers that its loader for CPUs takes.",
        ("aotc/worker/constants.py: LIMIT", "aotc/backend/__init__.py: SMALLER_STEPS"),
        Fails(
            Source("numbers-of-a-dispatch"),
            (np.zeros(4, np.int32), *[0] * 70),
            "dispatch requiring 70 constants exceeds limit of 64",
        ),
    ),
    Fault(
        "tensors-of-a-dispatch",
        Symptom.REFUSED,
        "Makes dispatches of more than the 32 tensors that it binds.",
        (
            "passes/double_reads.py: Note [many tensors]",
            "passes/double_reads.py: Note [many results]",
            "passes/join_updates.py: MOST_BINDINGS",
        ),
        Fails(
            Source("tensors-of-a-dispatch"),
            (np.zeros(64, np.float32),) * 33,
            "binding count 34 > 32",
        ),
    ),
    Fault(
        "tensors-of-a-dispatch-on-gpus",
        Symptom.REFUSED,
        "Compiles dispatches of more than the 16 tensors that its drivers of CUDA and "
        "HIP bind.",
        (
            "passes/join_updates.py: MOST_ON_GPUS",
            "aotc/backend/device_kernels.py: MOST_BINDINGS",
        ),
        Elsewhere("tests/runtime/test_cuda_driver.py loads such a training step"),
    ),
    Fault(
        "global-without-a-block",
        Symptom.REFUSED,
        "Cannot lower that a global of its stream phase holds no block of memory.",
        ("aotc/worker/workspaces.py: _GIVEN_BACK",),
        _refused("global-without-a-block", "util.null"),
        not_reproduced="the function that stores a null in the global also runs",
    ),
    Fault(
        "reduction-on-gpus",
        Symptom.REFUSED,
        'Distributes reductions to scalars over vectors with "failed to distribute", '
        "where an elementwise op is fused into them.",
        ("aotc/machine/target.py: _PLAIN_REDUCTIONS",),
        Refused(
            Source(
                "elementwise-in-a-gpu-sum",
                "cuda:sm_80",
                without=(_VECTOR_DISTRIBUTION,),
            ),
            "failed to distribute",
        ),
        not_reproduced="nor by the f32 cases of all ops (`benchmarks.op_targets`) "
        "without the flag; but it hides `negation-on-gpus`",
    ),
    Fault(
        "negation-on-gpus",
        Symptom.REFUSED,
        "Takes a negation that is fused into a sum for a difference, which it cannot "
        "split between threads. (Plain reductions hide it.)",
        ("dialects/ops/unary.py: Negate",),
        Refused(
            Source(
                "negation-in-a-gpu-sum",
                "cuda:sm_80",
                without=(_VECTOR_DISTRIBUTION,),
            ),
            "Failed to get an identity value for the reduction",
        ),
    ),
    Fault(
        "cuda-hopper",
        Symptom.REFUSED,
        "Knows no sm_90 and sm_100.",
        ("aotc/machine/target.py: TARGETS",),
        Refused(
            Source(
                "not-a-number",
                "cuda:sm_80",
                without=("--iree-cuda-target",),
                flags=("--iree-cuda-target=sm_90",),
            ),
            "missing GPU target",
        ),
    ),
    Fault(
        "unknown-targets",
        Symptom.DIES,
        "Dies of a GPU that it does not know.",
        ("aotc/machine/target.py: module",),
        CompilerDies(
            Source(
                "not-a-number",
                "cuda:sm_80",
                without=("--iree-cuda-target",),
                flags=("--iree-cuda-target=nonsense",),
            ),
            "SIGSEGV",
        ),
    ),
    Fault(
        "unregistered-ops",
        Symptom.DIES,
        "Dies of an op of a dialect that it does not know.",
        ("aotc/backend/crossing.py: require_upstream_only",),
        Dies(runs.compile_unregistered_op, "SIGSEGV"),
    ),
    Fault(
        "level-after-process-flags",
        Symptom.SLOW,
        "Takes no level of optimisation of a session (`--iree-opt-level`) into account "
        "once flags of the process are set: modules are compiled as at O0.",
        ("aotc/worker/__main__.py: is_process_flag",),
        Shows(runs.compile_at_a_level_after_process_flags),
    ),
)

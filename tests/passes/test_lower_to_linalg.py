"""lower-to-linalg: what crosses to IREE is upstream MLIR only."""

import re

import pytest

import aotc
import aotc.numpy as anp
from aotc import control, nn
from aotc.backend.crossing import require_upstream_only
from aotc.dialects.functions.functions import functions_of
from aotc.errors import CompileError
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import all_passes
from aotc.pipeline import lower
from aotc.tracing.assembly import trace


def mlp(x, w):
    return anp.sum(anp.tanh(x @ w) * 0.5, axis=0)


def test_leaves_no_graph_op_and_no_symbolic_type(model):
    network = model(mlp, "f32[n, 4]", "f32[4, 2]", symbols=("n",))
    network.run("lower-to-linalg")
    require_upstream_only(network.module)
    assert "affine_map<()[s0] -> (s0, 4)>" not in str(network.module)
    assert "tensor<?x4xf32>" in str(network.module)


def test_reads_each_symbol_once_from_the_first_input_that_is_it(model):
    network = model(mlp, "f32[n, 4]", "f32[4, 2]", symbols=("n",))
    network.run("lower-to-linalg")
    assert str(network.module).count("tensor.dim") == 1


def test_what_calls_of_one_region_have_in_common_is_written_once_in_a_block():
    @aotc.entry(x=aotc.Spec(("n", 64)), w=aotc.Spec((64, 64)))
    def layers(x, w):
        for _ in range(4):
            x = anp.tanh(x @ w)
        return x

    unit = Unit(trace([layers], {})).fork(Target.parse("x86_64-v3"))
    names = [each.name for each in all_passes()]
    run_passes(unit, all_passes()[: names.index("lower-to-linalg") + 1])
    text = str(functions_of(unit.module)["layers"])
    assert text.count("call @iree.contraction.kernel") == 4
    assert text.count("arith.divui") == 1  # the shares of its workgroups
    sizes = re.findall("affine.apply .*", text)
    assert sizes
    assert len(sizes) == len({*sizes})


@pytest.mark.parametrize(("target", "copies"), [("x86_64-v3", 9), ("vulkan", 0)])
def test_windows_are_copied_for_processors_and_read_in_place_for_gpus(target, copies):
    @aotc.entry(x=aotc.Spec((2, 8, 8, 4)), dy=aotc.Spec((2, 6, 6, 3)))
    def filters(x, dy):
        def loss(kernel):
            return anp.sum(nn.conv2d(x, kernel) * dy)

        return aotc.grad(loss)(anp.ones((3, 3, 4, 3), "f32"))

    unit = Unit(trace([filters], {})).fork(Target.parse(target))
    names = [each.name for each in all_passes()]
    run_passes(unit, all_passes()[: names.index("lower-to-linalg") + 1])
    assert str(unit.module).count("tensor.insert_slice") == copies


def test_unsigned_integers_lose_their_sign(model):
    sums = model(lambda x: x + x, "u8[3]")
    sums.run("lower-to-linalg")
    assert "ui8" not in str(sums.module)


def test_channels_of_groups_are_widened_after_they_are_sliced(model):
    """What is widened before, IREE puts on the stack as a whole for some targets."""
    types = "f16[2, 9, 9, 40]", "f16[3, 3, 4, 40]"
    groups = model(lambda x, kernel: nn.conv2d(x, kernel, groups=10), *types)
    groups.run("lower-to-linalg")
    slices = re.findall(r"tensor.extract_slice .* : (\S+) to", str(groups.module))
    assert len(slices) == 8  # an image and a filter for each channel of a group
    assert all(kind.endswith("xf16>") for kind in slices)


def test_an_empty_result_is_not_computed(model):
    empty = model(lambda x: anp.exp(x[2:2]), "f32[2]")
    empty.run("lower-to-linalg")
    assert "math.exp" not in str(empty.module)


def test_refuses_a_symbol_that_no_size_decides(model):
    odd = model(lambda x: x * 2.0, "f32[4]", symbols=("n",))
    with pytest.raises(CompileError, match="no size of an input says what 'n' is"):
        odd.run("lower-to-linalg")


def test_refuses_calls_and_says_what_to_run(model):
    calls = model(aotc.grad(lambda v: anp.sum(v * v)), "f32[3]")
    with pytest.raises(CompileError) as failure:
        calls.run("autodiff", "lower-to-linalg")
    assert failure.value.code == "not-lowered"
    assert "'inline'" in failure.value.hint


@aotc.entry(x=aotc.Spec((64, 49, 32)))
def column_sums(x):
    return anp.sum(x, axis=1)


def test_a_program_that_is_lowered_for_a_target_has_kernels_that_know_it():
    lowered = lower(trace([column_sums], {}), Target.parse("x86_64-v4"))
    assert lowered.target == "x86_64-v4"
    assert "@iree.columns" in str(lowered.module)


def test_refuses_a_kernel_whose_module_names_no_target():
    unit = Unit(trace([column_sums], {}), Target.parse("x86_64-v4"))
    with pytest.raises(CompileError, match="its module names none") as failure:
        run_passes(unit, all_passes())
    assert failure.value.code == "not-lowered"
    assert "graph.target" in failure.value.hint


def collatz(x):
    """How many steps it takes to 1."""

    def step(carried):
        n, steps = carried
        n = control.cond(n % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, n)
        return n, steps + 1

    return control.while_loop(lambda carried: carried[0] != 1, step, (x, 0))[1]


NUMBERS = {
    "fori_loop": lambda x: control.fori_loop(0, 9, lambda i, n: n * 3 + i, x),
    "scan": lambda x: control.scan(lambda n, e: (n + e, None), x, anp.arange(4))[0],
    "while_loop": collatz,
    "nested": lambda x: control.fori_loop(
        0, 3, lambda i, n: control.fori_loop(0, 4, lambda j, m: m + n * j, n), x
    ),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_loop_of_numbers_is_within_the_body_of_one_op(model, name):
    network = model(NUMBERS[name], "i32[]")
    network.run("inline", "lower-to-linalg")
    (function,) = (f for f in network.module.body.operations if f.regions[0].blocks)
    names = [op.operation.name for op in function.regions[0].blocks[0].operations]
    assert not any(name.startswith("scf.") for name in names)
    assert "scf." in str(network.module)


def test_what_a_loop_of_numbers_gives_is_not_computed_again_by_its_readers(model):
    network = model(lambda x: x * NUMBERS["scan"](x[0]), "i32[5]")
    network.run("inline", "lower-to-linalg")
    assert "util.optimization_barrier" in str(network.module)


@pytest.mark.parametrize(
    ("length", "stacks", "written"),
    [(64, 1, 16), (31, 1, 15 + 1), (3, 1, 3), (0, 1, 1), (64, 7, 6 + 1)],
)
def test_steps_of_a_small_loop_are_written_out_for_few_turns(
    model, length, stacks, written
):
    def sums(x):
        def step(h, row):
            h = anp.tanh(h + row)
            return h, tuple(h + n for n in range(stacks))

        last, stacked = control.scan(step, anp.zeros(5), x)
        return (last, *stacked)

    loop = model(sums, f"f32[{length}, 5]")
    loop.run("lower-to-linalg")
    assert str(loop.module).count("math.tanh") == written

"""What passes over IREE's own IR do for GPUs; and what IREE makes of that for CUDA."""

import re

import iree.compiler.ir as iree
import pytest

from aotc.pipeline import build
from aotc.worker.empty_work import leave_out_empty_work
from aotc.worker.recordings import (
    hold_hidden_numbers,
    keep_recordings,
)


def rewritten(text, rewrite):
    """The lines of a module, once a pass has changed it or not; and whether it has."""
    with iree.Context(), iree.Location.unknown():
        module = iree.Module.parse(text)
        changed = rewrite(module)
        assert module.operation.verify()
        return [line.strip() for line in str(module).splitlines()], changed


RECORDING = """
util.func public @f(%device: !hal.device, %code: !hal.executable, %cmd:
    !hal.command_buffer, %began: !hal.fence, %fence: !hal.fence, %x: !hal.buffer,
    %y: !hal.buffer, %id: i64, %n: index) {{
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %any = arith.constant -1 : i64
  %pool = arith.constant 0 : i64
  %type = hal.memory_type<"DeviceVisible|DeviceLocal"> : i32
  %usage = hal.buffer_usage<"Transfer|DispatchStorage"> : i32
  %z = hal.device.queue.alloca<%device : !hal.device> affinity(%any) wait(%began)
    signal(%fence) pool(%pool) type(%type) usage(%usage) flags("None")
    : !hal.buffer{{{size}}}
  hal.command_buffer.dispatch<%cmd : !hal.command_buffer>
    target(%code : !hal.executable)[%id] workgroups([{count}, %c4, {count}])
    bindings([(%x : !hal.buffer)[%c0, {size}], (%y : !hal.buffer)[%c4, %c4]])
    flags("None")
  util.return
}}
"""


def test_empty_grids_are_not_launched_and_no_memory_is_empty():
    lines, changed = rewritten(
        RECORDING.format(size="%n", count="%n"), leave_out_empty_work
    )
    assert changed
    text = "\n".join(lines)
    (size,) = re.findall(r"(%\w+) = arith\.maxui %arg8, %c1", text)
    assert f"!hal.buffer{{{size}}}" in text
    # what reads nothing is bound to the memory of y
    buffer, offset, length = re.findall(
        r"(%\w+) = arith\.select %\w+, %(?:arg5|c0|arg8), %(?:arg6|c4)\w*", text
    )
    assert f"({buffer} : !hal.buffer)[{offset}, {length}]" in text
    (both,) = re.findall(r"scf\.if (%\w+) \{", text)
    assert f"{both} = arith.andi" in text
    start = next(n for n, line in enumerate(lines) if line.startswith("scf.if"))
    assert lines[start + 1].startswith("hal.command_buffer.dispatch")


def test_what_is_never_empty_stays_as_it_is():
    text = RECORDING.format(size="%c4", count="%c4")
    lines, changed = rewritten(text, leave_out_empty_work)
    assert not changed
    assert not any("scf.if" in line or "arith.select" in line for line in lines)


HIDDEN = """
util.func public @f(%given: i32) -> (i32, i32, i32, tensor<2xf32>) {
  %zero = arith.constant 0 : i32
  %zeros = arith.constant dense<0.0> : tensor<2xf32>
  %a = util.optimization_barrier %zero : i32
  %b = util.optimization_barrier %zero : i32
  %c = util.optimization_barrier %given : i32
  %d = util.optimization_barrier %zeros : tensor<2xf32>
  util.return %a, %b, %c, %d : i32, i32, i32, tensor<2xf32>
}
"""


def test_constants_behind_barriers_come_from_globals_each_of_its_own():
    lines, changed = rewritten(HIDDEN, hold_hidden_numbers)
    text = "\n".join(lines)
    assert changed
    head, function = text.split("util.func")
    assert head.count("util.initializer") == 2
    assert head.count("util.optimization_barrier") == 2  # nor does IREE know them now
    loads = re.findall(r'= util\.global\.load @"(.*?)"', function)
    assert len({*loads}) == 2
    # of what is given, and of a tensor
    assert function.count("util.optimization_barrier") == 2


CALLS = """
util.func private @record(%n: index, %k: i32) -> !hal.command_buffer
util.func private @bind(%x: !hal.buffer) -> !hal.command_buffer
util.func public @f(%n: index, %k: i32, %x: !hal.buffer)
    -> (!hal.command_buffer, !hal.command_buffer) {
  %one = util.call @record(%n, %k) : (index, i32) -> !hal.command_buffer
  %two = util.call @bind(%x) : (!hal.buffer) -> !hal.command_buffer
  util.return %one, %two : !hal.command_buffer, !hal.command_buffer
}
"""


def test_recordings_are_kept_for_the_numbers_that_they_were_made_of():
    lines, changed = rewritten(CALLS, keep_recordings)
    assert changed
    text = "\n".join(lines)
    compared = re.findall(r"cmpi eq, %\S+, (%\w+)", text)
    made = dict(re.findall(r"(%\w+) = arith\.addi (%arg\d)", text))
    assert [made[each] for each in compared] == ["%arg0", "%arg1"]
    _, _, branches = text.partition("scf.if")
    kept, _, anew = branches.partition("else")
    assert "util.global.load" in kept
    assert "util.call" not in kept
    assert anew.index("util.call @record") < anew.index("util.global.store")
    stored = re.findall(r'store \S+, @"(\S+)"', anew)
    read = re.findall(r'load @"(\S+)"', text)
    assert sorted(stored) == sorted(read)
    assert text.count("util.call @bind") == 1  # of which memory is recorded


MODEL = """
import numpy
import aotc
import aotc.numpy as np

state = aotc.State({"w": numpy.ones((8, 4), "f4"), "count": numpy.int32(0)})


@aotc.entry(x=aotc.Spec((16, 8)))
def step(state, x):
    ones = np.sum(x == x).astype("f32")
    w = state["w"] + np.sum(np.exp(x) @ state["w"]) * ones
    count = state["count"].astype("f32")
    return {"w": w, "count": state["count"] + 1}, np.sum(w) * count


@aotc.entry(x=aotc.Spec(("n", 8)))
def sums(x):
    return np.sum(np.exp(x), axis=0)
"""


@pytest.mark.usefixtures("compile_anew")
def test_launches_are_recorded_when_a_module_is_loaded_or_sizes_change(tmp_path):
    source = tmp_path / "model.py"
    source.write_text(MODEL)
    build(
        source,
        targets=["cuda:sm_80"],
        output=tmp_path,
        dump=tmp_path / "ir",
        cache=False,
        sign=False,
        self_check="off",
    )
    (file,) = tmp_path.glob("ir/*/vmfb-passes/*-leave-out-empty-work.mlir")
    step, sums = (
        file.read_text()
        .partition(f"util.func public @{entry}(")[2]
        .split("util.func")[0]
        for entry in ("step", "sums")
    )
    for entry in step, sums:
        assert "hal.command_buffer.create" not in entry
        assert entry.count("hal.device.queue.execute.indirect") == 1
    assert "util.call @__sums_memoize_apply" in sums.partition("scf.if")[2]
    # the first step finds its state elsewhere than later ones
    assert "util.call @__step_memoize_apply" in step.partition("scf.if")[2]
    assert "hal.device.queue.dealloca" not in step  # workspaces are kept

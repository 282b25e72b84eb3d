"""Examples of passes on lowered IR compute, compiled, the same before and after.

That of `delay-exchanges` needs other devices: `tests/parallel` has its meaning.
"""

import runpy
from pathlib import Path

import iree.runtime as iree
import numpy as np
import pytest

from aotc import reference
from aotc.backend import compile_targets
from aotc.dialects import context
from aotc.dialects.functions.entries import Entry, write_entry
from aotc.dialects.functions.functions import (
    functions_of,
    is_entry,
    is_root,
    lowered_op,
    signature,
)
from aotc.machine.target import Target
from aotc.mlir import ir
from aotc.passes import PASSES
from aotc.programs.program import Program
from tests.machines import require_runs_here

LISTING = runpy.run_path(
    str(Path(__file__).parents[2] / "docs" / "list_pass_examples.py")
)
TARGET = Target.parse("x86_64-v3")
EXCHANGING = "delay-exchanges"


def lowering_examples():
    """The passes that leave lowered IR, with the programs of each before and after."""
    for name in PASSES:
        for example in LISTING["examples_of"](name) if name != EXCHANGING else ():
            before, after = example.unit(), example.unit()
            example.run(after)
            if lowered_op(after.module) is not None:
                yield name.replace("-", "_"), before, after


@pytest.fixture(scope="module")
def examples():
    require_runs_here(TARGET)
    return [*lowering_examples()]


def compiled(units):
    """One module of the programs, whose functions have the names of the passes."""
    with context(), ir.Location.unknown():
        whole, known = ir.Module.create(), {}
        for name, unit in units.items():
            name_function(unit.module, name)
            for op in unit.module.body.operations:
                if op.operation.name == "ml_program.global":
                    continue
                symbol = str(op.attributes["sym_name"])
                if symbol in known:
                    assert known[symbol] == str(op)
                    continue
                known[symbol] = str(op)
                op.operation.clone(ir.InsertionPoint(whole.body))
    (variant,) = compile_targets(Program(whole), [TARGET])
    config = iree.Config("local-sync")
    code = iree.VmModule.copy_buffer(config.vm_instance, variant.vmfb)
    return iree.load_vm_module(code, config)


def name_function(module, name):
    """Name the one function of a module that is called, whose states become inputs."""
    (function,) = (x for x in functions_of(module).values() if is_root(x))
    ir.SymbolTable.set_symbol_name(function.operation, name)
    if not is_entry(function) or '"state"' in str(function):
        for stated in ("graph.entry", "graph.symbols", "arg_attrs", "res_attrs"):
            if stated in function.attributes:
                del function.attributes[stated]
        write_entry(module, Entry.flat(name, *signature(function)))


def test_lowered_examples_compute_the_same_before_and_after(examples):
    graphs = {n: x for n, x, _ in examples if lowered_op(x.module) is None}
    lowered = {n: x for n, x, _ in examples if n not in graphs}
    assert [*graphs] == ["lower_to_linalg"]
    wanted = {}
    for name, unit in graphs.items():
        (entry,) = unit.program.entries
        inputs = drawn(entry)
        wanted[name] = reference.evaluate(unit.module, entry.name, inputs), inputs
    old = compiled(lowered)
    for name, unit in lowered.items():
        inputs = drawn(entry_called(unit, name))
        wanted[name] = called(old, name, inputs), inputs
    new = compiled({name: after for name, _, after in examples})
    for name, (results, inputs) in wanted.items():
        most = 1e-6 if name in graphs else 0
        for x, y in zip(called(new, name, inputs), results, strict=True):
            np.testing.assert_allclose(x, y, rtol=most, atol=0, err_msg=name)


def entry_called(unit, name):
    """The entry of a program by name."""
    return {each.name: each for each in unit.program.entries}[name]


def drawn(entry):
    """An array for each argument."""
    return [LISTING["draw"](port.type, n) for n, port in enumerate(entry.arguments)]


def called(module, name, inputs):
    """The results of a function of a module."""
    found = getattr(module, name)(*inputs)
    found = found if isinstance(found, tuple | list) else [found]
    return [np.asarray(x) for x in found]

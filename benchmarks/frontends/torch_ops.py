"""PyTorch's operator database through the importer, against PyTorch.

    python benchmarks/frontends/torch_ops.py [--ops PREFIX] [--samples N] [--write]

Each op of `torch.testing._internal.common_methods_invocations.op_db` is exported on its
float32 samples, imported, evaluated by the reference and compared. An op passes if all
of its samples do. `--write` puts the table into docs/torch-ops.md.
"""

from __future__ import annotations

import argparse
import itertools
import signal
import sys
import time
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db

from aotc.errors import AotcError, InputError
from aotc.frontends.torch.exporting import decomposed, exported
from aotc.frontends.torch.importing import imported, unsupported

TABLE = Path(__file__).parents[2] / "docs" / "torch-ops.md"
SECONDS = 60  # for one sample
VERDICTS = ("pass", "not exportable", "unsupported", "WRONG")

# what their results are is not defined
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided"} | {
    "new_empty",
    "new_empty_strided",
}


@dataclass(frozen=True)
class Outcome:
    """What became of a sample: one of VERDICTS, and why."""

    verdict: str
    op: str = ""
    reason: str = ""


# ---- one sample ---------------------------------------------------------------------


class Call(torch.nn.Module):
    """A call of an op with its tensors as inputs and everything else fixed."""

    def __init__(self, op, sample):
        super().__init__()
        self.op, self.sample, self.tensors = op, sample, []
        self.form = self.taken((sample.input, *sample.args)), self.taken(sample.kwargs)

    def taken(self, part):
        """`part` with numbers of inputs in the place of tensors."""
        if isinstance(part, torch.Tensor):
            self.tensors.append(part)
            return Slot(len(self.tensors) - 1)
        return rebuilt(part, self.taken)

    def forward(self, *tensors):
        """The op's result."""

        def given(part):
            if isinstance(part, Slot):
                return tensors[part.number]
            return rebuilt(part, given)

        args, kwargs = given(self.form[0]), given(self.form[1])
        return self.op(*args, **kwargs)


@dataclass(frozen=True)
class Slot:
    """Where an input goes."""

    number: int


def rebuilt(part, change):
    """A container with its parts changed."""
    if isinstance(part, (list, tuple)):
        return type(part)(change(each) for each in part)
    if isinstance(part, dict):
        return {key: change(each) for key, each in part.items()}
    return part


def outcome(info, sample) -> Outcome:
    """What becomes of one sample."""
    call = Call(info.op, sample)
    inputs = [tensor.detach().clone() for tensor in call.tensors]
    try:
        program = exported(call, tuple(inputs), None, None)
    except InputError as error:
        return Outcome("not exportable", reason=short(error))
    try:
        program = decomposed(program)
        found = unsupported(program)
        if found:
            return Outcome("unsupported", found[0].op, found[0].reason)
        result = imported(program)(*stored(program), *map(numpy, inputs))
    except AotcError as error:
        return Outcome("unsupported", "", short(error))
    return compared(info, sample, call, inputs, result)


def stored(program) -> list:
    """The weights of a program as its function takes them."""
    network = imported(program)
    given = [network.weights, network.state]
    return [each.tree for each in given if each is not None]


def numpy(tensor):
    """A tensor as an array."""
    return tensor.detach().numpy()


def compared(info, sample, call, inputs, result) -> Outcome:
    """The verdict on a result."""
    expected = torch.utils._pytree.tree_leaves(call(*inputs))
    found = [as_tensor(each) for each in torch.utils._pytree.tree_leaves(result)]
    if info.name in UNDEFINED:
        expected, found = (
            [torch.zeros_like(each) for each in part] for part in (expected, found)
        )
    try:
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(
                one, torch.as_tensor(other), rtol=1e-4, atol=2e-5, equal_nan=True
            )
    except (AssertionError, ValueError) as error:
        return Outcome("WRONG", reason=" ".join(str(error).split())[:160])
    return Outcome("pass")


def as_tensor(array):
    """A result as a tensor."""
    data = np.array(array)
    if data.dtype.name == "bfloat16":
        return torch.from_numpy(data.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(data)


def short(error) -> str:
    """The first line of an error."""
    return str(error).splitlines()[0][:160]


# ---- all of them --------------------------------------------------------------------


def outcomes(info, count: int):
    """What becomes of the first samples of an op."""
    samples = info.sample_inputs("cpu", torch.float32, requires_grad=False)
    for sample in list(itertools.islice(samples, count)):
        signal.alarm(SECONDS)
        try:
            yield outcome(info, sample)
        except TimeoutError:
            yield Outcome("unsupported", "", f"took longer than {SECONDS} s")
        except Exception as error:  # a bug of the importer counts as wrong
            yield Outcome("WRONG", reason=f"{type(error).__name__}: {short(error)}")
        finally:
            signal.alarm(0)


def worst(found: list[Outcome]) -> Outcome:
    """What is said of an op: the worst of its samples; exportable ones first."""
    tried = [each for each in found if each.verdict != "not exportable"] or found
    return max(tried, key=lambda each: VERDICTS.index(each.verdict))


def swept(prefix: str, count: int) -> dict[str, Outcome]:
    """The outcome of each op whose name starts with a prefix."""
    table, start = {}, time.time()
    for info in op_db:
        name = f"{info.name}.{info.variant_test_name}".rstrip(".")
        if not name.startswith(prefix) or torch.float32 not in info.dtypes:
            continue
        torch._dynamo.reset()
        found = list(outcomes(info, count))
        if found:
            table[name] = worst(found)
            if table[name].verdict in ("WRONG",) or prefix:
                print(f"{name}: {table[name]}", flush=True)
        if len(table) % 50 == 0:
            print(f"{len(table)} ops, {time.time() - start:.0f} s", file=sys.stderr)
    return table


# ---- report -------------------------------------------------------------------------


def report(table: dict[str, Outcome], count: int) -> str:
    """The summary, and what stands in the way, in Markdown."""
    counts = Counter(each.verdict for each in table.values())
    tried = len(table) - counts["not exportable"]
    share = 100 * counts["pass"] / max(tried, 1)
    lines = [
        "# PyTorch's operator database",
        "",
        f"Generated by `python benchmarks/frontends/torch_ops.py --samples {count} "
        f"--write` with torch {torch.__version__}.",
        "",
        f"{len(table)} ops; torch.export exports {tried} of them. Of these "
        f"{counts['pass']} pass ({share:.1f} %), {counts['unsupported']} are "
        f"unsupported, {counts['WRONG']} are wrong.",
        "",
    ]
    for verdict in VERDICTS[:0:-1]:
        lines += section(verdict, table)
    return "\n".join(lines)


def section(verdict: str, table: dict[str, Outcome]) -> list[str]:
    """The ops of one verdict, by what is said of them."""
    reasons = defaultdict(list)
    for name, found in sorted(table.items()):
        if found.verdict == verdict:
            reasons[found.op, found.reason].append(name)
    if not reasons:
        return []
    rows = [
        f"| {', '.join(names)} | {op and f'`{op}`'} | {reason.replace('|', '/')} |"
        for (op, reason), names in reasons.items()
    ]
    title = verdict[0].upper() + verdict[1:]
    return [f"## {title}", "", "| ops | ATen op | reason |", "|---|---|---|", *rows, ""]


def main() -> None:
    """Sweep and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", default="", metavar="PREFIX")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")

    def late(*_):
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    table = swept(options.ops, options.samples)
    text = report(table, options.samples)
    print(text)
    if options.write:
        TABLE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

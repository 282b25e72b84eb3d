"""`aotc run --ranks`: the same command in several processes that compute together."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from aotc.cli import output
from aotc.core import options
from aotc.errors import InputError, SetupError
from aotc.errors.exit_status import exit_cause

if TYPE_CHECKING:
    from aotc.artifacts.manifest import EntryPoint, Leaf
    from aotc.cli.arrays import Array
    from aotc.parallel.launching import Ended
    from aotc.runtime import DeviceModels

_PROGRAM = "import sys; from aotc.cli.main import main; sys.exit(main())"
# Ends of which all ranks say the same: input that is refused, and signals.
_SAID_BY_FIRST = (InputError.exit_code, 128 + signal.SIGINT, 128 + signal.SIGTERM)
_LOST = "[rank-lost]"  # in what a rank says that only waited for another


def start(
    count: int | None, arguments: Sequence[str], checkpoints: Path | None
) -> None:
    """Run `aotc run` in `count` processes and exit with their code; return if this is
    one of them.

    In one of these, or if no number was asked for, it does nothing.

    Args:
        count: of the processes.
        arguments: of the verb.
        checkpoints: the folder that they write a checkpoint to, if they do.

    Raises:
        click.exceptions.Exit: with their exit code.
        SetupError: `rank-lost`: a signal has ended the one that gives the answer.
        InputError: `usage`: this process is a rank of another starter.
    """
    if count is None or options.get("AOTC_GROUP") is not None:
        return
    from aotc.parallel.environment import starter
    from aotc.parallel.launching import run_ranks
    from aotc.runtime.engine import physical_cores

    if known := starter():
        name, size = known
        raise InputError(
            "usage",
            f"--ranks starts processes, and {name} has started this one, of {size}: "
            "each would compute all devices with ranks of its own",
            hint="leave out --ranks, or start aotc run by itself",
        )

    if options.get("AOTC_THREADS") is None:
        threads = min(physical_cores() // count, options.MAX_THREADS)
        os.environ["AOTC_THREADS"] = str(max(threads, 1))
    command = [sys.executable, "-P", "-c", _PROGRAM, "run", *arguments]
    ended = run_ranks(command, count, answers=_answers())
    first, *others = ended
    said: dict[str, list[str]] = {}
    for rank, each in enumerate(others, 1):
        if each.code != first.code or each.code not in _SAID_BY_FIRST:
            said.setdefault(_said_of(each), []).append(str(rank))
    for text, numbers in said.items():
        for line in text.splitlines():
            name = "rank" if len(numbers) == 1 else "ranks"
            click.echo(f"{name} {', '.join(numbers)}: {line}", err=True)
    if first.code < 0:
        raise SetupError(
            "rank-lost",
            f"expected rank 0 of {count} to give the answer; "
            f"{exit_cause(first.code)} has ended it",
            hint=_how_to_go_on(checkpoints),
        )
    raise click.exceptions.Exit(_exit_code(ended))


def _how_to_go_on(checkpoints: Path | None) -> str:
    """Return the hint after a loss: resume if there is a checkpoint to resume from."""
    from aotc.training.checkpoints import checkpoint_file

    if checkpoints is not None and checkpoint_file(checkpoints).exists():
        return f"--resume {checkpoints} goes on from the last checkpoint"
    return "start all ranks again: no checkpoint has been written"


def _answers() -> IO[str] | None:
    """Return standard output if it is a real file; None in a test."""
    stream = output.answers()
    try:
        stream.fileno()
    except (OSError, ValueError, AttributeError):
        return None
    return stream


def _said_of(ended: Ended) -> str:
    """Return the error report of an ended rank; "" if it only lost its peer."""
    if ended.code < 0:
        return f"{exit_cause(ended.code)} has ended it"
    has_kept_states = "goes on after step" in ended.errors
    return ended.errors if _LOST not in ended.errors or has_kept_states else ""


def _exit_code(ended: Sequence[Ended]) -> int:
    """Return the exit code of the first rank that failed by itself, else that of rank
    0.
    """
    failed = [
        x.code for x in ended if x.code > 0 and x.errors and _LOST not in x.errors
    ]
    return next(iter(failed), ended[0].code)


def call(
    models: DeviceModels, point: EntryPoint, inputs: tuple[str, ...]
) -> tuple[list[Leaf], list[Array]]:
    """Call an entry of several devices once; return output leaves and the outputs of
    all devices, stacked.

    An input with an axis more than the entry takes, as long as there are devices, has
    a part for each; any other one is the same for all. Each output has such an axis.

    Raises:
        InputError: an input does not fit, or the call fails.
        SetupError: `rank-lost`.
    """
    import numpy as np

    from aotc.cli import arrays

    devices = models.devices
    given = arrays.read_inputs(inputs, point.inputs)
    parts = [
        [
            _part(array, leaf, number, devices.count)
            for array, leaf in zip(given, point.inputs, strict=True)
        ]
        for number in devices.numbers
    ]
    own = models.call(point.name, parts)
    stacks = [np.stack(each) for each in zip(*own, strict=True)]
    leaves = [
        replace(leaf, shape=(devices.count, *leaf.shape)) for leaf in point.outputs
    ]
    with devices.group.engine.exchange("outputs", stacks) as ranks:
        return leaves, [np.concatenate(each) for each in zip(*ranks, strict=True)]


def _part(array: Array, leaf: Leaf, number: int, count: int) -> Array:
    """Return the slice of a stacked input for device `number`; an unstacked input as it
    is.
    """
    if array.ndim != len(leaf.shape) + 1:
        return array
    if len(array) != count:
        raise InputError(
            "shape-mismatch",
            f"expected a part of the input {leaf.name!r} for each of {count} devices, "
            f"or one for all; got {len(array)}",
        )
    part: Array = array[number, ...]
    return part


def require_fit(
    models: DeviceModels, point: EntryPoint, others: Mapping[str, object]
) -> None:
    """Raise if an entry cannot run on the given ranks, or with the given options.

    Args:
        models: of the devices of this process.
        point: the entry.
        others: what was said that is for entries of one device, by option.

    Raises:
        InputError: `bad-ranks` or `usage`.
    """
    from aotc.training.entries import require_one_device, require_one_rank

    require_one_rank(point, models.devices.group.size, "leave out --ranks")
    for option, said in others.items():
        if said:
            require_one_device(point, f", for {option}", f"leave out {option}")


def require_equal_states(models: DeviceModels) -> None:
    """Raise if the devices' states differ, so that they cannot be saved as one.

    Raises:
        InputError: `states-differ`.
        SetupError: `rank-lost`.
    """
    from aotc.training import replicas

    try:
        replicas.require_equal_states(models, "to write them as one")
    except InputError as error:
        error.hint = (
            "leave out --save-state; aotc.runtime.load_devices gives the model of each "
            "device, which has save_state"
        )
        raise


def writes_answer(models: DeviceModels) -> bool:
    """Return whether this process is rank 0, which prints the group's results."""
    return models.devices.group.rank == 0

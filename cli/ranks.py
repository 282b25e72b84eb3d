"""`aotc run --ranks`: the same command in several processes that compute together."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from aotc import options
from aotc.errors import InputError, SetupError
from aotc.exit_status import exit_cause

if TYPE_CHECKING:
    from aotc.artifacts.manifest import EntryPoint, Leaf
    from aotc.cli.arrays import Array
    from aotc.parallel.launching import Ended
    from aotc.runtime import DeviceModels

_LOST = "[rank-lost]"  # in what a rank says that only waited for another


def is_rank() -> bool:
    """Whether `start` has started this process."""
    return options.get("AOTC_GROUP") is not None


def start(count: int, arguments: Sequence[str]) -> None:
    """Run `aotc run` in so many processes, and end as they do.

    Args:
        count: of the processes.
        arguments: of the verb.

    Raises:
        click.exceptions.Exit: with their exit code.
        SetupError: `rank-lost`: a signal has ended the one that gives the answer.
    """
    from aotc.parallel.launching import run_ranks

    if "AOTC_THREADS" not in os.environ:
        cores = len(os.sched_getaffinity(0))
        os.environ["AOTC_THREADS"] = str(max(cores // count, 1))
    command = [sys.executable, "-m", "aotc.cli.main", "run", *arguments]
    ended = run_ranks(command, count)
    for rank, each in enumerate(ended):
        _tell(rank, each)
    first, *_ = ended
    if first.code < 0:
        raise SetupError(
            "rank-lost",
            f"expected rank 0 of {count} to give the answer; "
            f"{exit_cause(first.code)} has ended it",
            hint="start all ranks again; --resume goes on from a checkpoint",
        )
    raise click.exceptions.Exit(_exit_code(ended))


def _tell(rank: int, ended: Ended) -> None:
    """Print what a rank says of itself, if others have not said it."""
    if ended.code < 0 and rank:
        click.echo(f"rank {rank}: {exit_cause(ended.code)} has ended it", err=True)
    elif _LOST not in ended.errors or "goes on after step" in ended.errors:
        for line in ended.errors.splitlines():
            click.echo(f"rank {rank}: {line}", err=True)


def _exit_code(ended: Sequence[Ended]) -> int:
    """That of a rank that has failed by itself, else that of the first."""
    failed = [
        x.code for x in ended if x.code > 0 and x.errors and _LOST not in x.errors
    ]
    return next(iter(failed), ended[0].code)


def call(
    models: DeviceModels, point: EntryPoint, inputs: tuple[str, ...]
) -> tuple[list[Leaf], list[Array]]:
    """Call an entry of several devices once; its outputs on all of them.

    An input with an axis more than the entry takes, as long as there are devices, has
    a part for each; any other one is the same for all. Each output has such an axis.

    Raises:
        InputError: an input does not fit, or the call fails.
        SetupError: `rank-lost`.
    """
    from dataclasses import replace

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
    """What a device gets of an input."""
    if array.ndim != len(leaf.shape) + 1:
        return array
    if len(array) != count:
        raise InputError(
            "shape-mismatch",
            f"expected a part of the input {leaf.name!r} for each of {count} devices, "
            f"or one for all; got {len(array)}",
        )
    part: Any = array[number]
    return np.asarray(part)


def require_plain(point: EntryPoint, others: dict[str, Any]) -> None:
    """Refuse options that mean nothing to an entry of several devices.

    Args:
        point: the entry.
        others: what was said, by option.
    """
    for option, said in others.items():
        if said:
            raise InputError(
                "usage",
                f"{option} is for entries that one device computes; {point.name!r} "
                "takes several",
            )


def writes_answer(models: DeviceModels) -> bool:
    """Whether this process prints and writes what its group has computed."""
    return models.devices.group.rank == 0

"""Matching of the inputs and outputs of a peer's file with those of the entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aotc.artifacts.manifest import Leaf
from aotc.errors import InputError
from aotc.evidence.peers.engine import Array, PeerInput


def match_inputs(
    peer: str, ports: Sequence[PeerInput], leaves: Sequence[Leaf]
) -> tuple[Leaf, ...]:
    """Return, for each input of a peer's file, the entry input: by name, else by order.

    A file may have fewer inputs than the entry, if it has them by name: exporters drop
    what is not used.

    Args:
        peer: its name, for messages.
        ports: inputs of the file.
        leaves: inputs of the entry.

    Raises:
        InputError: `peer-mismatch`.
    """
    named = {leaf.name: leaf for leaf in leaves}
    if all(port.name in named for port in ports):
        matched = [named[port.name] for port in ports]
    else:
        matched = [*leaves]
    fits = len(matched) == len(ports) and all(map(_fits, ports, matched))
    if not fits:
        raise _mismatch(peer, ports, leaves)
    return tuple(matched)


def require_shapes(
    peer: str,
    ports: Sequence[PeerInput],
    arrays: Sequence[Array],
    sizes: Mapping[str, int],
) -> None:
    """Raise if a peer's file does not accept the shapes of a call's arrays.

    Args:
        peer: its name.
        ports: inputs of the file.
        arrays: for each of these.
        sizes: of the call, by name.

    Raises:
        InputError: `peer-mismatch`.
    """
    for port, array in zip(ports, arrays, strict=True):
        fixed = zip(port.shape, array.shape, strict=True)
        if any(size not in (None, given) for size, given in fixed):
            said = ", ".join(f"{name}={size}" for name, size in sizes.items())
            raise InputError(
                "peer-mismatch",
                f"{peer}: expected a file that takes the sizes of the traffic; got "
                f"{port}, which calls of {said} have as {list(array.shape)}",
                hint="export the file with symbolic sizes",
            )


def match_outputs(
    peer: str, names: Sequence[str], wanted: Sequence[str]
) -> tuple[int, ...]:
    """Return the index of each entry output among a peer's: by name, else by order.

    Args:
        peer: its name.
        names: of its outputs, empty where there are none.
        wanted: of the outputs of the entry.

    Raises:
        InputError: `peer-mismatch`.
    """
    places = {name: place for place, name in enumerate(names) if name}
    if all(name in places for name in wanted):
        return tuple(places[name] for name in wanted)
    if len(names) != len(wanted):
        raise InputError(
            "peer-mismatch",
            f"{peer}: expected the {len(wanted)} outputs of the entry "
            f"({', '.join(wanted)}); got {len(names)}",
            hint="name a file of the same model",
        )
    return tuple(range(len(wanted)))


def _fits(port: PeerInput, leaf: Leaf) -> bool:
    """Return whether dtype, rank and fixed sizes match an input of the entry."""
    if port.dtype != leaf.dtype or len(port.shape) != len(leaf.shape):
        return False
    return all(
        size is None or isinstance(wanted, str) or size == wanted
        for size, wanted in zip(port.shape, leaf.shape, strict=True)
    )


def _mismatch(
    peer: str, ports: Sequence[PeerInput], leaves: Sequence[Leaf]
) -> InputError:
    """Return the error for a file whose inputs are not those of the entry."""
    wanted = ", ".join(f"{leaf.name}: {leaf}" for leaf in leaves)
    return InputError(
        "peer-mismatch",
        f"{peer}: expected a file with the inputs of the entry, by name or in their "
        f"order ({wanted}); got {', '.join(map(str, ports)) or 'none'}",
        hint="name a file of the same model, with the same dtypes",
    )

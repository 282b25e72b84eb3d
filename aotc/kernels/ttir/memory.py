"""The memory of kernels, which knows who has read and written each element."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from aotc.errors import CompileError

_NOBODY, _SEVERAL = -1, -2  # in the place of the number of a program


@dataclass(frozen=True)
class Pointers:
    """Pointers into one buffer.

    Args:
        buffer: that they point into.
        at: the number of the element of it, of each; any number may be there as long as
            nothing is read or written.
    """

    buffer: Buffer
    at: np.ndarray[Any, Any]


@dataclass
class Buffer:
    """An argument of a kernel in memory.

    Args:
        name: in messages.
        elements: all of them, in one axis; integers have no sign, and bool is a byte.
        is_known: which of them have been given or written.
        dtype: of the array that they are.
        writer: the program that has written each.
        reader: the program that has read each.
    """

    name: str
    elements: np.ndarray[Any, Any]
    is_known: np.ndarray[Any, Any]
    dtype: np.dtype[Any]
    writer: np.ndarray[Any, Any] = field(init=False)
    reader: np.ndarray[Any, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.writer = np.full(self.elements.size, _NOBODY)
        self.reader = np.full(self.elements.size, _NOBODY)

    @classmethod
    def of(cls, name: str, array: np.ndarray[Any, Any]) -> Buffer:
        """Return memory that holds a copy of an array, row-major."""
        elements = array.ravel().view(_in_memory(array.dtype)).copy()
        return cls(name, elements, np.ones(array.size, bool), array.dtype)

    @classmethod
    def unwritten(cls, name: str, count: int, dtype: np.dtype[Any]) -> Buffer:
        """Return memory of which nothing is known."""
        elements = np.zeros(count, _in_memory(dtype))
        return cls(name, elements, np.zeros(count, bool), dtype)

    def load(
        self, at: np.ndarray[Any, Any], mask: np.ndarray[Any, Any], program: int
    ) -> np.ndarray[Any, Any]:
        """Return elements; where the mask is not set, something.

        Raises:
            CompileError: `bad-kernel`: one is outside, unknown, or written by a program
                of the same launch, this one too: lanes do not wait for each other.
        """
        places = self._inside(at, mask, "reads", program)
        if not self.is_known[places].all():
            first = places[~self.is_known[places]][0]
            _refuse(f"program {program} reads {self.name}[{first}] before it is known")
        self._refuse_any(places, self.writer[places] != _NOBODY, "reads", program)
        known = self.reader[places]
        is_alone = (known == _NOBODY) | (known == program)
        self.reader[places] = np.where(is_alone, program, _SEVERAL)
        found = self.elements[np.where(mask, at, 0)] if self.elements.size else None
        return np.zeros(at.shape, self.elements.dtype) if found is None else found

    def store(
        self,
        at: np.ndarray[Any, Any],
        values: np.ndarray[Any, Any],
        mask: np.ndarray[Any, Any],
        program: int,
    ) -> None:
        """Write elements where a mask is set.

        Raises:
            CompileError: `bad-kernel`: one is outside, or read or written already in
                the same launch.
        """
        places = self._inside(at, mask, "writes", program)
        if np.unique(places).size < places.size:
            _refuse(f"two lanes of program {program} write one element of {self.name}")
        self._refuse_any(places, self.writer[places] != _NOBODY, "writes", program)
        is_read = self.reader[places] != _NOBODY
        if is_read.any():
            first = places[is_read][0]
            _refuse(f"program {program} writes {self.name}[{first}], which others read")
        self.elements[places] = values[mask]
        self.is_known[places] = True
        self.writer[places] = program

    def written(self) -> np.ndarray[Any, Any]:
        """Return all elements.

        Raises:
            CompileError: `bad-kernel`: there are some that nothing has written.
        """
        if not self.is_known.all():
            count = np.count_nonzero(~self.is_known)
            first = int(np.argmin(self.is_known))
            _refuse(
                f"{count} of {self.elements.size} elements of {self.name} are never "
                f"written, the first of them at {first}"
            )
        return self.elements.view(self.dtype)

    def _inside(
        self,
        at: np.ndarray[Any, Any],
        mask: np.ndarray[Any, Any],
        verb: str,
        program: int,
    ) -> np.ndarray[Any, Any]:
        """Return the elements that a mask leaves."""
        places: np.ndarray[Any, Any] = at[mask]
        outside = (places < 0) | (places >= self.elements.size)
        if outside.any():
            place, size = places[outside][0], self.elements.size
            _refuse(
                f"program {program} {verb} {self.name}[{place}], which has {size} "
                "elements"
            )
        return places

    def _refuse_any(
        self,
        places: np.ndarray[Any, Any],
        is_written: np.ndarray[Any, Any],
        verb: str,
        program: int,
    ) -> None:
        if is_written.any():
            first = places[is_written][0]
            other = self.writer[first]
            _refuse(
                f"program {program} {verb} {self.name}[{first}], which program {other} "
                "writes"
            )


def _in_memory(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype that kernels have of elements of one in memory."""
    return np.dtype(f"i{dtype.itemsize}") if dtype.kind in "ub" else dtype


def _refuse(why: str) -> NoReturn:
    raise CompileError("bad-kernel", why)

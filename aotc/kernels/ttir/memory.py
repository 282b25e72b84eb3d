"""The memory of kernels, which knows who has read and written each element."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from aotc.errors import CompileError

# In the place of the number of a program, which is one more here: memory of zeros takes
# no time until it is touched, and of a large array few elements are.
_NOBODY, _SEVERAL = 0, -1


@dataclass(frozen=True)
class Pointers:
    """A tensor of pointers into one buffer, as element numbers.

    Args:
        buffer: that they point into.
        at: the number of the element of it, of each; any number may be there as long as
            nothing is read or written.
    """

    buffer: Buffer
    at: np.ndarray


@dataclass
class Buffer:
    """A kernel argument in memory, which checks reads and writes for races.

    Args:
        name: in messages.
        elements: all of them, in one axis; integers have no sign, and bool is a byte.
            Read-only if they are somebody else's, and copied when one is written.
        is_unknown: which of them have been neither given nor written.
        dtype: of the array that they are.
        is_updated: whether a lane may write the element that it alone has read.
    """

    name: str
    elements: np.ndarray
    is_unknown: np.ndarray
    dtype: np.dtype
    is_updated: bool = False
    _readers: np.ndarray = field(init=False)
    # of memory that nothing writes or updates, there are none to note
    _writers: np.ndarray | None = None
    _lanes: np.ndarray | None = None  # that have read

    def __post_init__(self) -> None:
        self._readers = np.zeros(self.elements.size, np.int64)
        if self.is_updated:
            self._lanes = np.zeros(self.elements.size, np.int64)

    @classmethod
    def of(cls, name: str, array: np.ndarray, *, is_updated: bool = False) -> Buffer:
        """Return a buffer that holds an array, row-major; the array stays as it is."""
        elements = array.ravel().view(_in_memory(array.dtype))
        elements.flags.writeable = False
        known = np.zeros(array.size, bool)
        return cls(name, elements, known, array.dtype, is_updated)

    @classmethod
    def of_unknown(cls, name: str, count: int, dtype: np.dtype) -> Buffer:
        """Return a buffer of uninitialised elements."""
        elements = np.zeros(count, _in_memory(dtype))
        return cls(name, elements, np.ones(count, bool), dtype)

    @property
    def is_known(self) -> np.ndarray:
        """A mask of the elements that are initialised."""
        return ~self.is_unknown

    def load(self, at: np.ndarray, mask: np.ndarray, program: int) -> np.ndarray:
        """Return the elements at `at`, any where the mask is false; record the reader.

        Raises:
            CompileError: `bad-kernel`: one is outside, unknown, or written by a program
                of the same launch, this one too: lanes do not wait for each other.
        """
        places = self._inside(at, mask, "reads", program)
        if self.is_unknown[places].any():
            first = places[self.is_unknown[places]][0]
            _refuse(f"program {program} reads {self.name}[{first}] before it is known")
        self._refuse_written(places, "reads", program)
        known = self._readers[places]
        is_alone = (known == _NOBODY) | (known == program + 1)
        self._readers[places] = np.where(is_alone, program + 1, _SEVERAL)
        if self._lanes is not None:
            lanes = _lanes_of(mask, at)
            is_own = (known == _NOBODY) | (self._lanes[places] == lanes)
            self._readers[places[~is_own]] = _SEVERAL
            self._lanes[places] = lanes
        found = self.elements[np.where(mask, at, 0)] if self.elements.size else None
        return np.zeros(at.shape, self.elements.dtype) if found is None else found

    def store(
        self,
        at: np.ndarray,
        values: np.ndarray,
        mask: np.ndarray,
        program: int,
    ) -> None:
        """Write elements where a mask is set; record the program as their writer.

        Raises:
            CompileError: `bad-kernel`: one is outside, or read or written already in
                the same launch.
        """
        places = self._inside(at, mask, "writes", program)
        if np.unique(places).size < places.size:
            _refuse(f"two lanes of program {program} write one element of {self.name}")
        self._refuse_written(places, "writes", program)
        is_read = self._readers[places] != _NOBODY
        if self._lanes is not None:
            is_alone = self._readers[places] == program + 1
            is_read &= ~(is_alone & (self._lanes[places] == _lanes_of(mask, at)))
        if is_read.any():
            first = places[is_read][0]
            _refuse(f"program {program} writes {self.name}[{first}], which others read")
        if not self.elements.flags.writeable:
            self.elements = self.elements.copy()
        self.elements[places] = values[mask]
        self.is_unknown[places] = False
        if self._writers is None:
            self._writers = np.zeros(self.elements.size, np.int64)
        self._writers[places] = program + 1

    def written_elements(self) -> np.ndarray:
        """Return all elements, or raise if one is uninitialised.

        Raises:
            CompileError: `bad-kernel`: there are some that nothing has written.
        """
        if self.is_unknown.any():
            count = np.count_nonzero(self.is_unknown)
            first = int(np.argmax(self.is_unknown))
            _refuse(
                f"{count} of {self.elements.size} elements of {self.name} are never "
                f"written, the first of them at {first}"
            )
        return self.elements.view(self.dtype)

    def _inside(
        self,
        at: np.ndarray,
        mask: np.ndarray,
        verb: str,
        program: int,
    ) -> np.ndarray:
        """Return the masked element numbers, or raise if one is out of bounds."""
        places: np.ndarray = at[mask]
        outside = (places < 0) | (places >= self.elements.size)
        if outside.any():
            place, size = places[outside][0], self.elements.size
            _refuse(
                f"program {program} {verb} {self.name}[{place}], which has {size} "
                "elements"
            )
        return places

    def _refuse_written(self, places: np.ndarray, verb: str, program: int) -> None:
        """Raise if a program of the same launch has written one of the elements."""
        if self._writers is None:
            return
        is_written = self._writers[places] != _NOBODY
        if is_written.any():
            first = places[is_written][0]
            other = self._writers[first] - 1
            _refuse(
                f"program {program} {verb} {self.name}[{first}], which program {other} "
                "writes"
            )


def _in_memory(dtype: np.dtype) -> np.dtype:
    """Return the dtype in memory for elements: signless for unsigned and bool."""
    return np.dtype(f"i{dtype.itemsize}") if dtype.kind in "ub" else dtype


def _lanes_of(mask: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return the lanes of a tile where a mask is set; -1 for a scalar access."""
    if at.ndim == 0:
        return np.full(1, -1)
    return np.flatnonzero(np.broadcast_to(mask, at.shape))


def _refuse(why: str) -> NoReturn:
    """Raise a `bad-kernel` error with a reason."""
    raise CompileError("bad-kernel", why)

"""Results of long work, kept by all that went into them, so that no build repeats it.

A value is kept under the SHA-256 of its recipe: every input that it depends on, tools
included. Equal recipes give equal values, so that a build is the same with and without
the cache. A value is one file: a line of JSON about it, its bytes, and the SHA-256 of
both, which is checked before use. What is damaged is removed and made again.

The folder is AOTC_CACHE, else `aotc` in the user's folder for caches; `off` is none. It
may travel from machine to machine. Whoever can write to it can put code into bundles
that are signed here, so it must belong to the user alone. Values that were not used for
longest go when the folder is larger than AOTC_CACHE_SIZE.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aotc.core import options
from aotc.core.locking import file_lock
from aotc.core.writing import atomic_write, make_folder
from aotc.counting import counters
from aotc.errors import InputError, SetupError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_SUFFIX = ".cached"
_DIGEST = 32
_DAY = 24 * 3600
_LARGE = 1 << 20  # bytes that are worth a thread
_SOURCES = ("*.py", "*.json")


@dataclass(frozen=True)
class CacheRecipe:
    """The cache key of a value: the digests of all inputs that it depends on.

    Args:
        kind: of value, such as `module`.
        label: what it is, for people; values of one label replace each other in use.
        parts: digest or text of each input by name.
    """

    kind: str
    label: str
    parts: Mapping[str, str]

    @cached_property
    def key(self) -> str:
        """The SHA-256 of kind and parts, as text."""
        text = json.dumps([self.kind, dict(self.parts)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class CacheFile:
    """A file of the cache: its path, recipe, size and time of last use."""

    path: Path
    recipe: CacheRecipe
    size: int
    used: float


class Cache:
    """A folder of values, stored under the digests of their recipes.

    Args:
        folder: which is made on first use.
        limit: bytes to keep at most.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit

    @classmethod
    def of_user(cls) -> Cache | None:
        """Return the user's cache; None if it is off, or there is no home folder.

        Raises:
            InputError: `bad-option`; `cache-exposed` if others can write to it.
        """
        named = options.get("AOTC_CACHE")
        if (named or "").lower() == "off":
            return None
        try:
            folder = Path(named).expanduser() if named else _user_caches() / "aotc"
        except RuntimeError:  # an account without a home
            return None
        _require_own(folder)
        return cls(folder, options.get("AOTC_CACHE_SIZE"))

    def find(self, recipe: CacheRecipe) -> bytes | None:
        """Return a recipe's stored value and mark it as used; None if missing or
        unreadable, or damaged and removed.
        """
        path, value = self._path(recipe), None
        with suppress(OSError):
            value = _checked_value(path, recipe.key)
            if value is not None:
                os.utime(path)
            else:
                path.unlink()
        found = "cache_misses" if value is None else "cache_hits"
        counters.counter(found, {"cache": recipe.kind}).add()
        return value

    def keep(self, recipe: CacheRecipe, value: bytes) -> str | None:
        """Store a value and evict old ones; return why storing failed, or None."""
        body = json.dumps(asdict(recipe), sort_keys=True).encode() + b"\n" + value
        path = self._path(recipe)
        try:
            make_folder(self.folder, 0o700)  # parents would get the mode of the shell
            make_folder(path.parent, 0o700)
            with atomic_write(path) as aside:
                aside.write_bytes(body + hashlib.sha256(body).digest())
        except SetupError as error:
            return error.message
        self.collect(self.limit)
        return None

    @contextmanager
    def lock(
        self, recipe: CacheRecipe, is_stopped: Callable[[], bool] = lambda: False
    ) -> Iterator[bool]:
        """Hold a recipe's lock within the `with` block; yield whether its value may be
        there now.

        Other processes and threads wait, until this one ends the block or dies. Where
        files cannot be locked or made, they do not: then each makes it for itself.

        Args:
            recipe: of what is to be made.
            is_stopped: says whether there is no need to wait any more.

        Returns:
            Whether the value may be there now, made by another one meanwhile.
        """
        path = self._path(recipe)
        try:
            make_folder(self.folder, 0o700)
            make_folder(path.parent, 0o700)
        except SetupError:
            yield False
            return
        lock = path.with_name(f".{path.name}.lock")
        with file_lock(lock, f"makes {recipe.kind} {recipe.label}", is_stopped):
            yield path.exists()

    def why_missing(self, recipe: CacheRecipe) -> str:
        """Return, in words, which inputs differ from the last value of the same
        label.
        """
        alike = [
            each
            for each in self.entries()
            if (each.recipe.kind, each.recipe.label) == (recipe.kind, recipe.label)
        ]
        if not alike:
            return "nothing like it was made before"
        before = max(alike, key=lambda each: each.used).recipe.parts
        changed = [
            name
            for name in {**before, **recipe.parts}
            if before.get(name) != recipe.parts.get(name)
        ]
        return f"changed: {', '.join(changed)}"

    def entries(self) -> Iterator[CacheFile]:
        """Yield the facts on each file of the cache whose header can be read."""
        for path in sorted(self.folder.glob(f"??/*{_SUFFIX}")):
            found = _cache_file(path)
            if found is not None:
                yield found

    def collect(self, limit: int) -> list[CacheFile]:
        """Remove the least recently used values until at most `limit` bytes remain;
        return those removed.

        What killed builds left half-written goes too, a day later.
        """
        self._remove_leftovers()
        removed = []
        stored = sorted(self.entries(), key=lambda each: each.used)
        excess = sum(each.size for each in stored) - limit
        for each in stored:
            if excess <= 0:
                break
            with suppress(OSError):
                each.path.unlink()
                removed.append(each)
                excess -= each.size
                counters.counter("cache_evictions", {"cache": each.recipe.kind}).add()
        return removed

    def remove_damaged(self) -> list[Path]:
        """Remove damaged, but readable, files from the cache; return their paths."""
        damaged = []
        for path in sorted(self.folder.glob(f"??/*{_SUFFIX}")):
            with suppress(OSError):  # what cannot be read may be whole
                if path.is_file() and _checked_value(path, path.stem) is None:
                    path.unlink()
                    damaged.append(path)
        return damaged

    def _remove_leftovers(self) -> None:
        """Remove temporary files that are more than a day old."""
        for path in self.folder.glob(f"??/.*{_SUFFIX}.*"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _DAY:
                    path.unlink()

    def _path(self, recipe: CacheRecipe) -> Path:
        """Return the path of the value of a recipe."""
        return self.folder / recipe.key[:2] / f"{recipe.key}{_SUFFIX}"


def digest(*parts: bytes | str) -> str:
    """Return the SHA-256 of texts and bytes, each preceded by its length."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(len(data).to_bytes(8, "little") + data)
    return found.hexdigest()


def sources_digest(folder: Path) -> str:
    """Return the SHA-256 of Python files and JSON tables in a folder, with names."""
    files = sorted(each for kind in _SOURCES for each in folder.rglob(kind))
    if not any(each.suffix == ".py" for each in files):
        raise FileNotFoundError(f"there are no sources of Python in {folder}")
    names_and_texts = ((str(f.relative_to(folder)), f.read_bytes()) for f in files)
    return digest(*(part for pair in names_and_texts for part in pair))


def arrays_digest(named: Mapping[str, ArrayLike]) -> str:
    """Return the SHA-256 of named arrays in order: dtypes, shapes and elements.

    What is still to be computed (`__array__`) is so when its turn comes. Each array has
    a digest of its own, of which that of all is made, so that threads hash large ones.
    """
    found = hashlib.sha256()
    waiting: deque[tuple[bytes, Callable[[], bytes]]] = deque()
    threads = os.cpu_count() or 1

    def take_first() -> None:
        kind, result = waiting.popleft()
        found.update(len(kind).to_bytes(8, "little") + kind + result())

    with ThreadPoolExecutor(threads) as pool:
        for name, array in named.items():
            whole = np.ascontiguousarray(array)
            kind = f"{name}: {whole.dtype} {np.shape(array)}".encode()
            data = whole.reshape(-1).view(np.uint8).data
            if whole.nbytes < _LARGE:
                waiting.append((kind, partial(_sha256, data)))
            else:
                waiting.append((kind, pool.submit(_sha256, data).result))
            if len(waiting) > threads:  # so that few are in memory
                take_first()
        while waiting:
            take_first()
    return found.hexdigest()


def _sha256(data: memoryview) -> bytes:
    """Return the SHA-256 of bytes."""
    return hashlib.sha256(data).digest()


def _user_caches() -> Path:
    """Return the user's folder for caches."""
    named = os.environ.get("XDG_CACHE_HOME")
    return (
        Path(named) if named and Path(named).is_absolute() else Path.home() / ".cache"
    )


def _require_own(folder: Path) -> None:
    """Refuse a folder that other users can write to."""
    try:
        status = folder.stat()
    except OSError:
        return
    if not folder.is_dir():
        raise InputError(
            "bad-option",
            "expected AOTC_CACHE to be a folder or off, got a file",
            where=str(folder),
        )
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise InputError(
            "cache-exposed",
            "expected the cache to be yours alone to write to, got mode "
            f"{status.st_mode & 0o777:o} of user {status.st_uid}",
            where=str(folder),
            hint=f"chmod 700 {folder}, or set AOTC_CACHE to another folder or to off",
        )


def _checked_value(path: Path, key: str) -> bytes | None:
    """Return the value in a cache file; None if the file or its key is wrong.

    Raises:
        OSError: the file cannot be read.
    """
    data = path.read_bytes() if _is_regular(path) else b""
    body, seal = data[:-_DIGEST], data[-_DIGEST:]
    if hashlib.sha256(body).digest() != seal:
        return None
    header, _, value = body.partition(b"\n")
    recipe = _recipe(header)
    return value if recipe is not None and recipe.key == key else None


def _is_regular(path: Path) -> bool:
    """Return whether a path is a regular file: reading a pipe or a device may not
    end.
    """
    return stat.S_ISREG(path.lstat().st_mode)


def _cache_file(path: Path) -> CacheFile | None:
    """Return the facts on a cache file by its header; None if it has none."""
    try:
        status = path.stat()
        if not _is_regular(path):
            return None
        with path.open("rb") as file:
            recipe = _recipe(file.readline())
    except OSError:
        return None
    if recipe is None:
        return None
    return CacheFile(path, recipe, status.st_size, status.st_mtime)


def _recipe(header: bytes) -> CacheRecipe | None:
    """Return the recipe that the first line of a cache file states; None if it
    states none.
    """
    try:
        document: Any = json.loads(header)
        parts = document["parts"]
        return CacheRecipe(str(document["kind"]), str(document["label"]), {**parts})
    except (ValueError, KeyError, TypeError):
        return None

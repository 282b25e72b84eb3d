"""Writing and reading the directory `NAME-VERSION.aotc/`.

`read_bundle(write_bundle(folder, manifest, files, signer), trust)` gives back the
manifest, and `load` the bytes of every file. A bundle appears in one step or not at
all: it is written aside, flushed to disk, and renamed.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from aotc.artifacts import files as disk
from aotc.artifacts import leftovers, schema, strict_json
from aotc.artifacts.chunks import Chunks, Hasher
from aotc.artifacts.manifest import FILE, SIGNATURE_FILE, File, Manifest
from aotc.core.writing import exchange, flush_directory
from aotc.errors import InputError, SetupError, VerificationError
from aotc.errors.system import cannot_read, cannot_write, translate_system_errors

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from aotc.artifacts import sign
    from aotc.artifacts.keys import Signer
    from aotc.artifacts.trust import Trust

SUFFIX = ".aotc"
TRIAL_SUFFIX = (
    ".trial"  # of what a build writes to run it: nobody takes it for a bundle
)
T = TypeVar("T")
_ATTEMPTS = 20
_HASHERS = 2  # threads: of the whole, and of its parts
_LARGE = 1 << 18  # bytes that are worth a thread

# suffix or name of a file → role, media type
_KINDS = {
    ".vmfb": ("module", "application/vnd.iree.vmfb"),
    ".irpa": ("weights", "application/vnd.iree.irpa"),
    ".safetensors": ("weights", "application/vnd.safetensors"),
    "provenance.json": ("provenance", "application/vnd.in-toto+json"),
    "sbom.json": ("sbom", "application/vnd.cyclonedx+json"),
}


@dataclass(frozen=True)
class FinishedFile:
    """A file already hashed and flushed, to be moved into a bundle.

    Args:
        path: on the file system of the bundle.
        size: in bytes.
        sha256: of its content.
        chunks: digests of its parts, if it is large.
    """

    path: Path
    size: int
    sha256: str
    chunks: Chunks | None = None

    def to_json(self) -> dict[str, Any]:
        """Return size and digests as the manifest holds them."""
        found: dict[str, Any] = {"size": self.size, "sha256": self.sha256}
        if self.chunks is not None:
            found["chunks"] = self.chunks.to_json()
        return found


Content = bytes | Path | FinishedFile  # of a file; a path is where to copy it from


@dataclass(frozen=True)
class VerifiedBundle:
    """A bundle whose signature, manifest and list of files have been verified.

    The content of a file is verified when it is asked for: by `load`, or by `check` for
    all of them.
    """

    path: Path
    manifest: Manifest
    key_id: str | None

    def load(self, path: str) -> disk.Buffer:
        """Read and verify a file; return its bytes in memory that cannot change.

        Raises:
            VerificationError: `file-missing`, `file-irregular`, `size-mismatch` or
                `digest-mismatch`.
        """
        file = self.manifest.files[path]
        with disk.open_root(self.path) as root:
            return disk.load(root, path, file.size, file.sha256, file.chunks)

    def load_into(self, path: str, memory: memoryview) -> None:
        """Read and verify a file into `memory`, which has the file's size.

        Raises like `load`.
        """
        file = self.manifest.files[path]
        with disk.open_root(self.path) as root:
            disk.load_into(root, path, memory, file.sha256, file.chunks)

    @contextmanager
    def sealed_path(self, path: str) -> Iterator[str]:
        """Yield a path to an immutable, verified copy of a file, valid within the
        block.

        For consumers that keep the memory on their own; raises like `load`.
        """
        file = self.manifest.files[path]
        with (
            disk.open_root(self.path) as root,
            disk.sealed_path(root, path, file.size, file.sha256, file.chunks) as sealed,
        ):
            yield sealed

    @contextmanager
    def mapped_path(self, path: str) -> Iterator[str]:
        """Yield a path by which to map the verified file itself, valid within the
        block.

        It is the file itself, not a copy: what is changed in it later, whoever maps it
        sees. Raises like `load`.
        """
        file = self.manifest.files[path]
        with (
            disk.open_root(self.path) as root,
            disk.mapped_path(root, path, file.size, file.sha256, file.chunks) as own,
        ):
            yield own

    def check(self) -> None:
        """Verify the content of every file.

        Raises like `load`.
        """
        self._check(self.manifest.files.values())

    def check_small(self) -> None:
        """Verify the content of every file that is no module and no weights.

        Whoever loads a variant verifies its own, and reads no other. Raises like
        `load`.
        """
        manifest = self.manifest
        large = {variant.file for variant in manifest.variants.values()}
        large |= {weights.file for weights in manifest.weights}
        self._check(each for path, each in manifest.files.items() if path not in large)

    def _check(self, files: Iterable[File]) -> None:
        """Verify size and digest of the given files."""
        with disk.open_root(self.path) as root:
            for file in files:
                disk.check(root, file.path, file.size, file.sha256)


@translate_system_errors()
def read_bundle(
    path: Path | str,
    trust: Trust | str | os.PathLike[str] | None = None,
    allow_unsigned: bool = False,
) -> VerifiedBundle:
    """Open a bundle and verify everything but the content of its files.

    In this order; the numbers go on from those of `aotc.artifacts.sign`:

    1.–5. the signature file, by `sign.verify`
    6. the manifest's digest is the signed one
    7. the manifest is well formed
    8. the signed digests, the manifest and the directory name the same files
    9. if the manifest promises a signature with a low s, it has one
    10. the manifest's channel is one that the key may vouch for

    Raises:
        InputError: there is no readable bundle.
        VerificationError: something is wrong with it.
    """
    path = Path(path)
    with disk.open_root(path) as root:
        _check_present(root, path)
        sizes = disk.sizes(root)
        raw = disk.read_small(root, FILE, strict_json.SIZE_LIMIT)
        signature = None
        if SIGNATURE_FILE in sizes:
            signature = disk.read_small(root, SIGNATURE_FILE, strict_json.SIZE_LIMIT)
    if signature is not None:
        from aotc.artifacts import sign  # which takes as long as all the rest here
        from aotc.artifacts.trust import Trust

        accepted = Trust.parse(trust)
        # 1. – 5.
        signed = sign.verify(signature, accepted.keys)
        # 6. digest of the manifest
        _check_signed_manifest(signed, raw)
        channels = accepted.channels
    else:
        _check_allowed(allow_unsigned, path)
        signed, channels = None, frozenset({"unsigned"})
    # 7. form of the manifest
    manifest = Manifest.read(raw)
    # 8. the same files everywhere
    _check_files(manifest, sizes, signed)
    # 9. the form of the signature
    _check_form(manifest, signed)
    # 10. channel
    _check_channel(manifest, channels)
    return VerifiedBundle(path, manifest, signed.key_id if signed else None)


def _check_allowed(allow_unsigned: bool, path: Path) -> None:
    """Raise unless unsigned bundles are allowed."""
    if not allow_unsigned:
        raise VerificationError(
            "unsigned",
            "expected a signed bundle, got one without a signature",
            where=str(path),
            hint="--allow-unsigned takes it anyway (in Python allow_unsigned=True): "
            "it is native code, so only do that with what you built yourself",
        )


def _check_present(root: int, path: Path) -> None:
    """Raise for a folder that is no bundle, before any other check."""
    with os.scandir(root) as entries:
        if next(entries, None) is None:
            raise InputError("bundle-empty", "the directory is empty", where=str(path))
    if not disk.is_there(root, FILE):
        raise VerificationError(
            "manifest-missing",
            f"this folder is not a bundle: there is no {FILE}",
            where=str(path),
            hint=f"name the folder NAME-VERSION{SUFFIX} that `aotc build` wrote",
        )


def _check_signed_manifest(signed: sign.Signed, raw: bytes) -> None:
    """Raise if the manifest's digest is not the signed one."""
    got, expected = hashlib.sha256(raw).hexdigest(), signed.digests.get(FILE)
    if got != expected:
        raise VerificationError(
            "digest-mismatch",
            f"{FILE} was changed after signing: expected sha256 {expected}, got {got}",
            where=FILE,
        )


def _check_files(
    manifest: Manifest, sizes: Mapping[str, int], signed: sign.Signed | None
) -> None:
    """Raise unless signature, manifest and directory list the same files and sizes."""
    listed = {file.path: file.sha256 for file in manifest.files.values()}
    if signed and {k: v for k, v in signed.digests.items() if k != FILE} != listed:
        raise VerificationError(
            "signature-mismatch", "the signature and the manifest list different files"
        )
    present = set(sizes) - {FILE, SIGNATURE_FILE}
    for path in sorted(set(listed) - present):
        raise VerificationError(
            "file-missing", f"{path} is missing from the bundle", where=path
        )
    for path in sorted(present - set(listed)):
        raise VerificationError(
            "file-unlisted", f"{path} is not part of the bundle", where=path
        )
    for path, file in manifest.files.items():
        if sizes[path] != file.size:
            raise VerificationError(
                "size-mismatch",
                f"{path} was changed after signing: "
                f"expected {file.size} bytes, got {sizes[path]}",
                where=path,
            )


def _check_form(manifest: Manifest, signed: sign.Signed | None) -> None:
    """Raise for a malleable signature (high s) if the manifest promises a low one."""
    if signed and manifest.data.get("signature_form") and not signed.has_low_s:
        raise VerificationError(
            "signature-malformed",
            "the signature has a high s: somebody gave it another spelling",
            where=SIGNATURE_FILE,
        )


def _check_channel(manifest: Manifest, allowed: frozenset[str]) -> None:
    """Raise unless the manifest's channel is one that the key may vouch for."""
    if manifest.channel in allowed:
        return
    if allowed == {"unsigned"}:
        raise VerificationError(
            "signature-missing",
            f"expected a signature, as the channel is {manifest.channel}, got none",
        )
    raise VerificationError(
        "channel-mismatch",
        f"expected a bundle of channel {' or '.join(sorted(allowed))} from this key, "
        f"got {manifest.channel}",
        hint="if you trust the key for more, pass it: --trust PUB",
    )


@translate_system_errors()
def write_bundle(
    directory: Path | str,
    manifest: Manifest | Mapping[str, object],
    files: Mapping[str, Content],
    signer: Signer | None,
    *,
    force: bool = False,
) -> Path:
    """Write and sign a bundle directory atomically; return its path.

    Args:
        directory: the bundle itself if the name ends with `.aotc` (or `.trial`, which
            is not flushed to the disk), otherwise a folder in which
            `NAME-VERSION.aotc` is made.
        manifest: the manifest; `files` and `channel` are filled in here.
        files: the content of each file, where to copy it from, or what to move.
        signer: who signs; None writes a bundle of channel `unsigned`.
        force: replace an existing bundle.

    Raises:
        InputError: `output-exists` or `not-a-bundle`.
        SetupError: `cannot-write`. Nothing is left behind then either, and an existing
            bundle stays as it was.
    """
    data = dict(manifest.data if isinstance(manifest, Manifest) else manifest)
    target = bundle_path(Path(directory), data["name"], data["version"])
    lasts = target.suffix != TRIAL_SUFFIX
    with _staging_folder(target, force) as folder:
        data["channel"] = _channel(data, signer)
        data.pop("signature_form", None)
        if signer:
            data["signature_form"] = "low-s"
        data["files"] = _copy_files(folder, files, data.get("files", []))
        raw = Manifest(data).to_bytes()
        write_file(folder / FILE, [raw], flush=lasts)
        if signer:
            digests = {file["path"]: file["sha256"] for file in data["files"]}
            digests[FILE] = hashlib.sha256(raw).hexdigest()
            from aotc.artifacts import sign

            signature = sign.sign(target.name, digests, signer)
            write_file(folder / SIGNATURE_FILE, [signature])
        if lasts:
            for path in [*folder.rglob("*"), folder]:
                if path.is_dir():
                    flush_directory(path)
        _put_in_place(folder, target)
    return target


def bundle_path(directory: Path, name: str, version: str) -> Path:
    """Return the path at which `write_bundle` puts a bundle of a name and version."""
    is_named = directory.suffix in (SUFFIX, TRIAL_SUFFIX)
    return directory if is_named else directory / f"{name}-{version}{SUFFIX}"


def _channel(data: Mapping[str, object], signer: Signer | None) -> str:
    """Return the channel of a bundle: unsigned, development, or the declared one."""
    if signer is None:
        return "unsigned"
    return "development" if signer.development else str(data.get("channel", "release"))


def _check_target(target: Path, force: bool) -> None:
    """Raise if the output exists and may not be replaced."""
    if not os.path.lexists(target):
        return
    if not force:
        raise InputError(
            "output-exists", f"{target} exists already", hint="replace it with --force"
        )
    if target.is_symlink() or not (target / FILE).is_file():
        raise InputError(
            "not-a-bundle",
            f"{target} is not an aotc bundle, so it is not replaced",
            hint="choose another output, or remove it yourself",
        )


@contextmanager
def scratch_folder(directory: Path | str, title: tuple[str, str]) -> Iterator[Path]:
    """Yield a new folder beside the bundle to be written; remove it after the block.

    Args:
        directory: that the bundle is to be written into, as for `write_bundle`.
        title: its name and version.

    Raises:
        SetupError: `cannot-write`.
    """
    target = bundle_path(Path(directory), *title)
    is_new, folder = not target.parent.exists(), _name_beside(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
    except OSError as error:
        raise cannot_write(target, error, "the bundle") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if is_new:
            with suppress(OSError):  # the bundle is in it now
                target.parent.rmdir()


@contextmanager
def _staging_folder(target: Path, force: bool) -> Iterator[Path]:
    """Yield a new folder beside `target` for its content; remove what is left after."""
    folder = _name_beside(target)
    try:
        _check_target(target, force)
        target.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
        yield folder
    except OSError as error:
        raise cannot_write(target, error, "the bundle") from error
    finally:
        # After a success it has its final name; what it replaced may be here instead.
        shutil.rmtree(folder, ignore_errors=True)


def _name_beside(target: Path) -> Path:
    """Return a new hidden name beside `target`; also remove leftovers of dead
    processes.
    """
    leftovers.collect(target.parent, f".{target.name}.")
    return target.with_name(f".{target.name}.{leftovers.unique_name()}")


def _copy_files(
    folder: Path, files: Mapping[str, Content], described: list[Any]
) -> list[dict[str, object]]:
    """Write all files into the bundle's folder; return their rows for the manifest."""
    known = {entry["path"]: entry for entry in described}
    entries = []
    for path in sorted(files):
        _check_path(path)
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        done = _finish(files[path], place)
        name = place.name if place.name in _KINDS else place.suffix
        role, media_type = _KINDS.get(name, ("data", "application/octet-stream"))
        entry = {"role": role, "media_type": media_type} | known.get(path, {})
        entry.pop("chunks", None)
        entries.append(entry | {"path": path} | done.to_json())
    return entries


def _finish(content: Content, place: Path) -> FinishedFile:
    """Move a finished file, or write content, to `place`; return its size and
    digests.
    """
    if isinstance(content, FinishedFile):
        content.path.rename(place)
        return content
    return write_file(place, _read(content) if isinstance(content, Path) else [content])


def _check_path(path: str) -> None:
    """Raise if a path may not be the name of a file in a bundle."""
    if not schema.is_path(path) or path in schema.RESERVED_PATHS:
        raise InputError(
            "bad-file-name", f"{path!r} cannot be the name of a file in a bundle"
        )


def _read(path: Path) -> Iterator[bytes]:
    """Yield the content of a file in pieces."""
    try:
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                yield chunk
    except OSError as error:
        raise cannot_read(path, error, "a file for the bundle") from error


def write_file(
    path: Path,
    chunks: Iterable[bytes | memoryview],
    head: Callable[[], bytes] | None = None,
    *,
    flush: bool = True,
) -> FinishedFile:
    """Write a new file, flush it to disk, and return its size and digests.

    Args:
        path: of the file.
        chunks: of its content, in order.
        head: what is to stand at its beginning in the end, known when all is written;
            what changes nothing is not written.
        flush: whether to wait until the disk has it.
    """
    from concurrent.futures import ThreadPoolExecutor  # no loader needs it

    hasher, start = Hasher(), None
    with open(path, "x+b") as file, ThreadPoolExecutor(_HASHERS) as pool:
        for chunk in chunks:
            start = chunk if start is None else start
            hashing = _begin_hashing(hasher, chunk, pool)
            file.write(chunk)
            for work in hashing:
                work.result()
        if head is not None and (last := head()) != start:
            file.seek(0)
            file.write(last)
            hasher = _hash_again(file)
        file.flush()
        if flush:
            os.fsync(file.fileno())
    return FinishedFile(path, hasher.size, hasher.sha256, hasher.chunks)


def _begin_hashing(
    hasher: Hasher, chunk: bytes | memoryview, pool: Executor
) -> list[Future[None]]:
    """Submit the hashing of bytes to threads, or hash small ones now; return the
    futures.
    """
    if len(chunk) < _LARGE:
        hasher.update(chunk)
        return []
    return [pool.submit(work) for work in hasher.updates(chunk)]


def _hash_again(file: IO[bytes]) -> Hasher:
    """Return a hasher fed with the whole content of a file."""
    hasher = Hasher()
    file.seek(0)
    while chunk := file.read(1 << 20):
        hasher.update(chunk)
    return hasher


def _put_in_place(folder: Path, target: Path) -> None:
    """Rename the finished folder to its final name, replacing an old bundle; undo on
    failure.
    """
    if os.path.lexists(target) and exchange(folder, target):
        try:
            flush_directory(target.parent)
        except BaseException:
            exchange(folder, target)
            raise
        return
    _rename_in_place(folder, target)


def _rename_in_place(folder: Path, target: Path) -> None:
    """Replace `target` by `folder` in two renames, where the file system has no
    exchange.
    """
    old = target.with_name(f".{target.name}.old-{secrets.token_hex(8)}")
    try:
        if os.path.lexists(target):
            warnings.warn(
                f"the file system cannot exchange two folders: {target} was missing "
                "for a moment",
                stacklevel=2,
            )
            os.rename(target, old)
        os.rename(folder, target)
        flush_directory(target.parent)
    except BaseException:
        if not folder.exists():
            os.rename(target, folder)
        if old.exists():
            os.rename(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def retry_if_replaced(path: Path | str, read: Callable[[], T]) -> T:
    """Return `read()` of the bundle at `path`; repeat it if the bundle was replaced
    meanwhile.

    Files of a bundle that is replaced disappear one by one. What is read of it and of
    the new one together does not fit, so that `read` fails; read again, it does not.
    """
    for _ in range(_ATTEMPTS):
        before = _identity(path)
        try:
            return read()
        except (InputError, VerificationError, SetupError):  # the last: a file is gone
            if _identity(path) == before:
                raise
    return read()


def _identity(path: Path | str) -> tuple[int, ...] | None:
    """Return device, inode and change time of a folder; None if it is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns

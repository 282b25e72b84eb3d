"""`aotc cache`: what builds have kept, to look at, to check, and to make smaller."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aotc.cli import output
from aotc.cli.verb import MemorySize, format_option, verb
from aotc.errors import InputError

if TYPE_CHECKING:
    from aotc.core.cache import Cache, CacheFile


@verb(
    "aotc cache ls",
    "aotc cache gc --size 500MB",
    "aotc cache verify",
)
@click.argument("action", type=click.Choice(["ls", "gc", "verify"]))
@click.option(
    "--size",
    type=MemorySize(),
    metavar="SIZE",
    help="What gc leaves, such as 500MB; by default AOTC_CACHE_SIZE.",
)
@format_option()
def cache(action: str, size: int | None, form: str) -> None:
    """Show what builds keep (ls), remove what is old (gc) or damaged (verify).

    The folder is AOTC_CACHE, else `aotc` in your folder for caches. Exits with 1 if
    verify finds damage; what was damaged is removed, and made again when it is needed.
    """
    if size is not None and action != "gc":
        raise click.UsageError("--size belongs to gc")
    kept = _user_cache()
    if action == "verify":
        damaged = kept.remove_damaged()
        _show(kept, form, damaged=damaged)
        if damaged:
            raise click.exceptions.Exit(1)
    elif action == "gc":
        _show(kept, form, removed=kept.collect(kept.limit if size is None else size))
    else:
        _show(kept, form)


def _user_cache() -> Cache:
    """Return the user's build cache; raise if it is off."""
    from aotc.core.cache import Cache

    kept = Cache.of_user()
    if kept is None:
        raise InputError(
            "no-cache",
            "there is no cache: AOTC_CACHE is off, or this account has no home",
            hint="set AOTC_CACHE to a folder",
        )
    return kept


def _show(
    kept: Cache,
    form: str,
    *,
    removed: list[CacheFile] | None = None,
    damaged: list[Path] | None = None,
) -> None:
    """Print the entries of the cache, and what was removed or is damaged."""
    stored = sorted(kept.entries(), key=lambda each: -each.used)
    total = sum(each.size for each in stored)
    document: dict[str, Any] = {
        "schema": "aotc.cache/1",
        "folder": str(kept.folder),
        "bytes": total,
        "limit_bytes": kept.limit,
        "entries": [_facts(each) for each in stored],
        "removed": [_facts(each) for each in removed or ()],
        "damaged": [str(path) for path in damaged or ()],
    }
    lines = [f"damaged, removed: {path}" for path in damaged or ()]
    lines += ["nothing is damaged"] if damaged == [] else []
    if removed is not None:
        size = output.size(sum(each.size for each in removed))
        lines.append(f"removed {output.quantity(len(removed), 'value')}, {size}")
    elif damaged is None and stored:
        rows = [
            (
                each.recipe.label,
                each.recipe.kind,
                output.size(each.size),
                _age_text(each),
            )
            for each in stored
        ]
        lines += [output.table(("VALUE", "KIND", "SIZE", "USED"), rows), ""]
    lines.append(
        f"{output.quantity(len(stored), 'value')}, {output.size(total)} of at most "
        f"{output.size(kept.limit)} (AOTC_CACHE_SIZE), "
        f"in {kept.folder}"
    )
    output.emit(document, "\n".join(lines), form)


def _facts(stored: CacheFile) -> dict[str, object]:
    """Return the JSON object of one cached file."""
    return {
        "key": stored.recipe.key,
        "kind": stored.recipe.kind,
        "label": stored.recipe.label,
        "bytes": stored.size,
        "used": int(stored.used),
        "parts": dict(stored.recipe.parts),
    }


def _age_text(stored: CacheFile) -> str:
    """Return how long ago a cached file was used, as text."""
    hours = max(0, time.time() - stored.used) / 3600
    return f"{hours:.0f} h ago" if hours < 48 else f"{hours / 24:.0f} days ago"

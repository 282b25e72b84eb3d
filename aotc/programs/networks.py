"""Networks of other frameworks that are imported when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any


class NetworksOnDemand(Mapping[str, Any]):
    """A mapping from names to imported networks, which are imported at first use.

    Args:
        load: imports them.
        examples: the digest of the inputs that they bring along, which a build asks
            for and does not import them for.
    """

    def __init__(self, load: Callable[[], Mapping[str, Any]], examples: str) -> None:
        self._load, self.examples = load, examples

    @cached_property
    def _networks(self) -> Mapping[str, object]:
        """The networks by name, imported at first use."""
        return self._load()

    def __getitem__(self, name: str) -> Any:
        return self._networks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._networks)

    def __len__(self) -> int:
        return len(self._networks)

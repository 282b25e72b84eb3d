"""Options of `aotc compat` that name devices, and those that state the policy."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from aotc.cli.precision_options import precision_options
from aotc.cli.verb import FilePath, MemorySize, combine_options

if TYPE_CHECKING:
    from aotc.artifacts.rollout.device_classes import FleetDevice
    from aotc.artifacts.rollout.policy import Policy, Require
    from aotc.artifacts.rollout.profiles import Assumptions

_Function = TypeVar("_Function", bound=Callable[..., object])

_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,20})?)(%?)")
_ASSUMPTIONS = ("assume_runtime", "assume_cuda", "assume_vulkan", "assume_memory")
_NAMED_DEVICES = "--devices FLEET or --device NAME"


class Percentage(click.ParamType):  # type: ignore[type-arg]
    """Parameter type: a share such as `99%` or `0.99`, parsed as an exact fraction."""

    name = "share"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Fraction:
        """Parse the share; raise a usage error for other texts."""
        text = str(value)
        found = _SHARE.fullmatch(text)
        share = Fraction(found[1]) / (100 if found[2] else 1) if found else None
        if share is None or share > 1:
            self.fail(
                f"expected a share such as 99% or 0.99, got {text[:40]!r}", param, ctx
            )
        return share


class Version(click.ParamType):  # type: ignore[type-arg]
    """Parameter type: a version such as `12.4` or `3.13.0`."""

    name = "version"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return the version as text; raise a usage error for other texts."""
        parts = str(value).split(".")
        if not 1 < len(parts) < 4 or not all(
            part.isascii() and part.isdigit() and len(part) < 6 for part in parts
        ):
            self.fail(f"expected a version such as 12.4, got {value!r}", param, ctx)
        return str(value)


@dataclass(frozen=True)
class FleetChoice:
    """The devices named on the command line, and what to assume where profiles are
    silent.
    """

    fleets: tuple[Path, ...]
    names: tuple[str, ...]
    here: bool
    device_keys: tuple[str, ...]
    assume_runtime: str | None
    assume_cuda: str | None
    assume_vulkan: str | None
    assume_memory: int | None

    def devices(self) -> list[FleetDevice]:
        """Read and return all named devices.

        Raises:
            InputError: what `fleet.read_fleet` and `profiles.read_profile` raise.
        """
        from aotc.artifacts.rollout.device_classes import FleetDevice
        from aotc.artifacts.rollout.fleet import read_fleet
        from aotc.artifacts.rollout.profiles import named_profile
        from aotc.artifacts.trust import Trust

        self._require_devices()
        facts = self._assumptions()
        trust = Trust.of(*self.device_keys) if self.device_keys else None
        found = read_fleet(self.fleets, facts, trust)
        found += [
            FleetDevice(name, named_profile(name, facts, None), where="--device")
            for name in dict.fromkeys(self.names)
        ]
        return [*found, _this_machine()] if self.here else found

    def _require_devices(self) -> None:
        """Raise if no device is named, or an option applies to none of the named
        ones.
        """
        if not (self.fleets or self.names or self.here):
            raise click.UsageError(f"name devices: {_NAMED_DEVICES}, --self")
        if self.device_keys and not self.fleets:
            raise click.UsageError("--trust-devices needs --devices FLEET")
        for name in _ASSUMPTIONS:
            if getattr(self, name) is not None and not (self.fleets or self.names):
                raise click.UsageError(
                    f"--{name.replace('_', '-')} needs {_NAMED_DEVICES}: this machine "
                    "states its own facts"
                )

    def _assumptions(self) -> Assumptions:
        """Return the facts to assume where a device's profile does not state them."""
        from aotc.artifacts.rollout.profiles import Assumptions

        return Assumptions(
            self.assume_runtime or _installed_runtime(),
            _cuda_api(self.assume_cuda),
            self.assume_vulkan,
            self.assume_memory,
        )


_FLEET = (
    click.option(
        "--devices",
        "fleets",
        multiple=True,
        type=FilePath(path_type=Path),
        metavar="FLEET",
        help="A profile of a device, a fleet file, or a folder of them.",
    ),
    click.option(
        "--device",
        "names",
        multiple=True,
        metavar="NAME",
        help="A device of the shipped table, such as jetson-orin.",
    ),
    click.option("--self", "here", is_flag=True, help="This machine."),
    click.option(
        "--trust-devices",
        "device_keys",
        multiple=True,
        metavar="PUB",
        type=FilePath(),
        help="Ask for a signature by this public key on each file of --devices.",
    ),
    click.option(
        "--assume-runtime",
        type=Version(),
        help="IREE runtime of devices that do not state it.  [default: the one here]",
    ),
    click.option(
        "--assume-cuda",
        type=Version(),
        help="CUDA version of drivers of devices that do not state it, such as 12.4.",
    ),
    click.option("--assume-vulkan", type=Version(), help="The same for Vulkan."),
    click.option(
        "--assume-memory",
        type=MemorySize(),
        metavar="SIZE",
        help="Memory of devices that do not state it, such as 8GB.",
    ),
)
_POLICY = (
    click.option(
        "--require",
        type=click.Choice(["optimal", "supported", "checked"]),
        multiple=True,
        default=("supported",),
        show_default=True,
        help="The verdict that covers a device; `checked` also asks that the build, or "
        "an emulator, ran the code that it takes. May be given again.",
    ),
    click.option(
        "--min-coverage",
        type=Percentage(),
        default="100%",
        show_default=True,
        help="The share of devices that must be covered.",
    ),
    click.option(
        "--per-label",
        multiple=True,
        metavar="LABEL",
        help="Ask for that share of the devices of each value of LABEL, such as site.",
    ),
    click.option(
        "--no-fallback",
        "fallback",
        flag_value=False,
        default=True,
        help="A processor in place of an accelerator covers no device.",
    ),
    click.option(
        "--any",
        "any_artifact",
        is_flag=True,
        help="One of the bundles is enough for a device; else each of them must run.",
    ),
)


def fleet_options() -> Callable[[_Function], _Function]:
    """Return a decorator for the options on devices, as one argument `fleet`."""
    fields = tuple(FleetChoice.__annotations__)
    return combine_options("fleet", _FLEET, fields, lambda said: FleetChoice(**said))


def policy_options() -> Callable[[_Function], _Function]:
    """Return a decorator for the options of a policy, as one argument `policy`."""
    fields = (
        *("require", "min_coverage", "per_label", "fallback", "any_artifact"),
        "demand",
    )
    options = (*_POLICY, precision_options())
    return combine_options("policy", options, fields, _policy)


def _policy(parsed: dict[str, Any]) -> Policy:
    """Return the policy that parsed options describe; raise a usage error for
    contradictions.
    """
    from aotc.artifacts.rollout.policy import Policy

    asked = parsed.pop("require")
    if len(asked) > len(set(asked)) or {"optimal", "supported"} <= set(asked):
        raise click.UsageError("--require takes one verdict, and `checked` once")
    require: Require = "optimal" if "optimal" in asked else "supported"
    return Policy(require=require, checked="checked" in asked, **parsed)


def _this_machine() -> FleetDevice:
    """Return this machine as a device, from a fresh profile."""
    from aotc.artifacts.rollout.device_classes import FleetDevice
    from aotc.artifacts.rollout.profiles import Assumptions, read_profile
    from aotc.cli.doctor import profile

    facts = read_profile(profile(), Assumptions(), "this machine")
    return FleetDevice("this machine", facts, where="--self")


def _installed_runtime() -> str | None:
    """Return the release of the installed IREE runtime; None without one."""
    from aotc.artifacts.compat import release_of
    from aotc.cli.doctor import package_version

    version = package_version("iree-base-runtime")
    return version and release_of(version)


def _cuda_api(version: str | None) -> int | None:
    """Convert `12.4` to the number that CUDA drivers report: 12040."""
    if version is None:
        return None
    major, minor, *_ = map(int, version.split("."))
    if minor > 99:
        raise click.UsageError(
            f"expected a version of CUDA such as 12.4, got {version}"
        )
    return 1000 * major + 10 * minor

"""The targets of a build whose code can be compared on this machine."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from aotc.artifacts.rollout.candidates import reasons_against
from aotc.errors import SetupError
from aotc.runtime import engine
from aotc.target import Target


def comparable_targets(targets: Sequence[Target]) -> tuple[Target, ...]:
    """Return the targets that run here; warn of the others.

    Raises:
        SetupError: `incompatible`: none of them does.
    """
    host = engine.host({target.backend for target in targets})
    against = {target: reasons_against(target, host) for target in targets}
    found = tuple(target for target in targets if not against[target])
    left_out = "; ".join(
        f"{target}: {', '.join(map(str, reasons))}"
        for target, reasons in against.items()
        if reasons
    )
    if not found:
        raise SetupError(
            "incompatible",
            f"nothing can be compared with the source, as no target runs here: "
            f"{left_out}",
            hint="leave out --parity, or name a target of this machine as well",
        )
    if left_out:
        compared = ", ".join(map(str, found))
        warnings.warn(
            f"code for {compared} is compared with the source, and not what this "
            f"machine does not run ({left_out})",
            stacklevel=2,
        )
    return found

"""`aotc targets`: what can be compiled for."""

from __future__ import annotations

from aotc.artifacts.backends import BACKENDS
from aotc.cli import output
from aotc.cli.verb import format_option, verb
from aotc.machine.target import TARGETS, Target


@verb(
    "aotc targets",
    "aotc build model.py --target x86_64-v3 --target cuda:sm_89",
)
@format_option()
def targets(form: str) -> None:
    """List the targets to compile for, and what each needs.

    Compiling needs the compiler extra and nothing else, whatever the target: no SDK,
    no GPU. The last column says what running needs.
    """
    cpu, native = (list(map(str, Target.named(text))) for text in ("cpu", "native"))
    document = {
        "schema": "aotc.targets/1",
        "cpu": cpu,
        "native": native,
        "targets": [_facts(target) for target in TARGETS.values()],
    }
    rows = [(target, target.summary, target.needs) for target in TARGETS.values()]
    text = output.table(("TARGET", "FOR", "RUNS ON"), rows)
    note = (
        f"`cpu` means {' and '.join(cpu)} here: a device takes the best that it runs.\n"
        f"`native` means {native[0]}, and `cuda` means {Target.parse('cuda')}."
    )
    output.emit(document, f"{text}\n\n{note}", form)


def _facts(target: Target) -> dict[str, object]:
    """Return a target's facts as a JSON object."""
    return {
        **target.to_json(),
        "id": target.id,
        "summary": target.summary,
        "backend": target.backend,
        "drivers": list(BACKENDS[target.backend].drivers),
        "needs": target.needs,
        "flags": list(target.flags),
    }

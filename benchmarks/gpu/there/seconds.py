"""Estimates of how long the parts of a run take.

The seconds below are taken for true, not measured on a device: those of processes are
what they take on a processor of two cores, with room for a driver that translates PTX.
A run gives each part its share of the time by them, and `prepare` prints them.
"""

from __future__ import annotations

RUN = 355  # seconds of a run
JOBS = 8  # comparisons at a time, on a machine of 16 cores
CALL = 0.5  # for each figure of a time

_SET_UP = 20  # wheels and programs unpacked, profile, compat
_START = 6  # of a process, with the device and the code of a bundle
_CASE = 0.05
_TIME = 5 + 2 * CALL
_PEERS = 20
_NETWORK, _TRAINED = 12, 20
_SCHEDULE = 0.08
TRAINED = "train:"


def estimate(plan, targets, jobs=JOBS):
    """Return the estimated seconds of each part of a run; 0 for empty ones.

    Args:
        plan: what folder.json says.
        targets: ids of the variants that run.
        jobs: comparisons at a time.
    """
    on_cuda = any(plan["backends"][each] == "cuda" for each in targets)
    rows = [(p, row) for p in plan["programs"] for row in p["bundles"]]
    starts = [p for p, row in rows for each in row["variants"] if each in targets]
    compare = sum(_START + _CASE * each["cases"] for each in starts) / jobs
    timed = [call for each in plan["programs"] for call in each["timed"]]
    times = len(timed) + (sum(map(is_graphed, timed)) if on_cuda else 0)
    networks = plan["networks"]
    trained = sum(name.startswith(TRAINED) for name in networks)
    return {
        "compare": compare,
        "times": times * _TIME + (_PEERS if timed else 0),
        "networks": trained * _TRAINED + (len(networks) - trained) * _NETWORK,
        "schedules": plan["schedules"] * _SCHEDULE if on_cuda else 0,
    }


def is_graphed(call):
    """Return whether a call is also timed with CUDA graphs, as training steps are."""
    return call["entry"] == "train_step"


def told(parts):
    """Return a line on the estimated seconds, and whether a run has enough."""
    whole = _SET_UP + sum(parts.values())
    each = ", ".join(f"{name} {seconds:.0f}" for name, seconds in parts.items())
    line = f"there: about {whole:.0f} s: {each}, the rest {_SET_UP}"
    if whole > RUN:
        line += f"; a run has {RUN} s, and cuts each part (--parts NAME has it all)"
    return line

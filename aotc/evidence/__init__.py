"""Comparison of a model under several execution models, on the same recorded traffic.

    requests    traffic → the calls of a replay, in a seeded random order
    contract    which of them a model takes
    models      a source → bundles, one for each execution model
    contenders  what is compared: a bundle, and what its build cost
    peers       other runtimes that are contenders, too
    player      makes the calls of a replay; serve runs it in a process of its own
    replay      replays on all contenders, in rounds that take turns
    queueing    measured service times → latencies at a rate of arrivals, and goodput
    figures     what all of that says of a contender
    page        the figures as one HTML page, with plots

`aotc bench --traffic` tells it. All but `models` and `functions` needs what
`aotc.runtime` needs, and nothing of the compiler; an engine of `peers` needs its own
package.
"""

from __future__ import annotations

"""The public names of `aotc.special`."""

from __future__ import annotations

from aotc.special.bessel import i0, i0e, i1, i1e
from aotc.special.functions import (
    betaln,
    digamma,
    entr,
    erf,
    erfc,
    erfinv,
    expit,
    gammaln,
    log_ndtr,
    logit,
    ndtr,
    ndtri,
    polygamma,
    xlog1py,
    xlogy,
)
from aotc.special.log_sums import logsumexp
from aotc.tracing.calls import guard

psi = digamma

__all__ = [
    "betaln",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfinv",
    "expit",
    "gammaln",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "log_ndtr",
    "logit",
    "logsumexp",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "xlog1py",
    "xlogy",
]


guard(globals(), __all__)

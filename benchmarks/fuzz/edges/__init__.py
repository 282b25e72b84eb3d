"""Public functions at their edges, beside those of the same name elsewhere.

Each function starts from calls that work (`settings.py`). One argument at a time, or
two, is replaced by edge values of its kind (`values.py`, `parameters.py`): that makes
the cases (`cases.py`). Ours and the function of a peer (`peers.py`) are called with the
same arguments, and what comes of it is compared (`outcomes.py`): both give the same
value, or both refuse, or a row of `documented.py` says why not.
"""

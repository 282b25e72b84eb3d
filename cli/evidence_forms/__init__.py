"""Forms of the results of `aotc bench --traffic`: a text table and an HTML page."""

from __future__ import annotations

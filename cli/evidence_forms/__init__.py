"""What `aotc bench --traffic` found, for people: a table as text, and an HTML page."""

from __future__ import annotations

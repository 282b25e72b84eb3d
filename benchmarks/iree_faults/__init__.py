"""Faults of IREE that aotc avoids, each with a witness by which it shows."""

from .table import FAULTS

__all__ = ["FAULTS"]

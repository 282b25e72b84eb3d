"""The process in which IREE compiles one module for one target.

    python -m aotc.worker FOLDER PARENT

FOLDER holds `graph.mlirbc` (linalg), `frame.mlir` (IREE's side) and `job.json`; the
worker adds `module.vmfb`, if the job is more than a plan of the memory, and, last,
`report.json`. Diagnostics go to standard error. It imports nothing of aotc but itself,
and nothing of MLIR but IREE's. It dies with the process PARENT that started it.
"""

from __future__ import annotations

IO_ERROR = 74  # EX_IOERR of sysexits.h: files could not be read or written

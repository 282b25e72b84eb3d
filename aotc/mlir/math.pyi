"""What static tools know of `aotc.mlir.math`: its functions make one value each."""

from collections.abc import Callable

from aotc.mlir.ir import Value

def __getattr__(name: str) -> Callable[..., Value]: ...

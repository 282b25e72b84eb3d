"""The module of IREE's VM that the loader defines, and that compiled code calls."""

NAME = "aotc_host"
VERSION = 0
EXCHANGE = "exchange"  # takes JSON and a tensor, and returns another tensor
# Takes the same, and returns a number for `FINISH`, which waits for the tensor.
START, FINISH = "start_exchange", "finish_exchange"

"""Training steps in aotc and its peers: the measurement behind docs/performance.md."""

"""ONNX and StableHLO graphs with ops that have no importer, taken apart into pieces."""

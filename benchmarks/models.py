"""Whole models in aotc, ONNX Runtime, OpenVINO, PyTorch and JAX: times, memory, sizes.

    pip install -e '.[torch]' && python benchmarks/models.py [--models NAME …]

Installs each peer in an environment of its own, exports the models of `models_zoo`
once, prints and writes the tables, and draws them. docs/performance.md says what they
mean.
"""

from inference.command import main

if __name__ == "__main__":
    main()

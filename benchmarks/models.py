"""Whole models in aotc, ONNX Runtime, OpenVINO and PyTorch: times, memory, sizes.

    pip install -e '.[torch]' && python benchmarks/models.py [--models NAME …]

Installs each peer in an environment of its own, exports the models of `models_zoo`
once, and prints and writes the table. docs/performance.md says what it means.
"""

from inference.command import main

if __name__ == "__main__":
    main()

"""Ablation of passes and families of kernels: whole models without each of them.

    pip install -e '.[torch]' && python benchmarks/ablation.py [--cases NAME …]

Builds each model whole, and once without each pass that a build can do without and each
family of kernels; prints and writes what that changes: dispatches, the work of kernels,
and times in rounds in which both take turns. docs/performance.md says what it means.
"""

from inference.ablation import main

if __name__ == "__main__":
    main()

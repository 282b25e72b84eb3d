"""Training steps in aotc, jax.jit, PyTorch and torch.compile: times, memory, losses.

    pip install -e '.[compiler]' && python benchmarks/step_time.py [--models NAME …]

Installs each peer in an environment of its own, builds and checks the models of
`training/models.py`, and prints and writes the tables. What was measured before is kept
(`--again` forgets it). docs/performance.md says what they mean.
"""

from training.command import main

if __name__ == "__main__":
    main()

"""Time and memory of a training step of low-rank adapters beside weights of 4 bits.

    pip install -e '.[compiler]' gguf && python benchmarks/lora_step.py [SIZE ...]

Builds `decoders/lora.py` for a decoder of each size (of `build_memory.py`) whose
weights are Q4_0, without self-check, and takes steps of 256 tokens in a process of its
own, with weights copied and mapped. A row says: seconds of a build; of the processor
for a step, the least and the median; the most resident memory of the process; and the
loss at the first and the last step, which sees the same tokens.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import decoder_table
from build_memory import SIZES, build

MODEL = Path(__file__).parent / "decoders" / "lora.py"
STEPS = 5
RUN = """
import json, resource, statistics, sys, time
import numpy
import aotc

bundle, threads, mode, words, steps = sys.argv[1:]
model = aotc.load(bundle, threads=int(threads), weights=mode, allow_unsigned=True)
rng = numpy.random.default_rng(0)
tokens, targets = (rng.integers(0, int(words), (1, 256), "i4") for _ in range(2))
times, losses = [], []
for _ in range(int(steps)):
    start = time.process_time()
    losses.append(float(model.train_step(tokens=tokens, targets=targets)))
    times.append(time.process_time() - start)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({
    "least": min(times), "median": statistics.median(times), "peak": peak,
    "first_loss": losses[0], "last_loss": losses[-1],
}))
"""


def main():
    """Build, take steps, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="*", default=["26M"], help=", ".join(SIZES))
    parser.add_argument("--target", default="x86_64-v4")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    for name in options.sizes:
        for row in measure(name, options.target, options.threads):
            print(json.dumps(row), flush=True)


def measure(name, target, threads):
    """Build and run one size; yield a row with weights copied, and one mapped."""
    size, work = SIZES[name], Path(tempfile.mkdtemp())
    try:
        model = work / "model.py"
        shutil.copy(MODEL, model)
        decoder_table.write_gguf(size, "Q4_0", model.with_name("model.gguf"))
        built = build(model, work / "out", target)
        bundle = next((work / "out").iterdir())
        for mode in ("private", "mapped"):
            given = [str(bundle), str(threads), mode, str(size.words), str(STEPS)]
            done = subprocess.run(
                [sys.executable, "-c", RUN, *given], check=True, capture_output=True
            )
            figures = json.loads(done.stdout)
            yield {"size": name, "weights": mode, "build": built["wall"], **figures}
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()

"""Traffic for the models of this folder, the same in every run.

    python benchmarks/execution/traffic.py scoring > scoring.csv
    python benchmarks/execution/traffic.py images > images.csv

`scoring`: lengths of 1 to 512 tokens, log-normal around 48 as lengths of texts are,
with one request in ten a whole window. `images`: a dozen sizes as cameras, thumbnails
and crops give them, of which the small ones come most often. No recording of anybody's
traffic is in it.
"""

import sys
from collections import Counter

import numpy

CALLS, LONGEST = 10_000, 512
IMAGES = {
    (64, 64): 3000, (96, 96): 2200, (112, 112): 1400, (128, 96): 900, (96, 128): 800,
    (128, 128): 600, (160, 128): 350, (144, 144): 300, (192, 144): 200,
    (160, 160): 120, (224, 224): 100, (256, 192): 30,
}  # fmt: skip


def scoring(rng):
    """Yield the CSV lines of traffic for the language model: lengths and counts."""
    drawn = numpy.exp(rng.normal(numpy.log(48), 0.9, CALLS))
    lengths = numpy.clip(numpy.rint(drawn), 1, LONGEST).astype(int)
    lengths[rng.random(CALLS) < 0.1] = LONGEST
    yield "length,count"
    for length, count in sorted(Counter(lengths.tolist()).items()):
        yield f"{length},{count}"


def images(rng):
    """Yield the CSV lines of traffic for the image model: heights, widths, counts."""
    yield "height,width,count"
    for (height, width), count in IMAGES.items():
        yield f"{height},{width},{count}"


if __name__ == "__main__":
    kinds = {"scoring": scoring, "images": images}
    print("\n".join(kinds[sys.argv[1]](numpy.random.default_rng(0))))

"""Time decoders by the precision of their weights, beside llama.cpp.

    pip install gguf llama-cpp-python
    python benchmarks/decoder_table.py --llama

Writes a GGUF file of random weights for each size and type, builds
`decoders/gguf.py` with it, and times one step and a prompt of 128 tokens. llama.cpp
computes the same file through its library (`LLAMA_CPP_LIB_PATH` names the folder of one
that was built for the processor, with `-DGGML_NATIVE=ON`). Rounds alternate between the
two, and each figure is the least of all rounds: of processor time with one thread,
which other work on the machine disturbs little, and of wall time with more. A step is
that after 128 tokens, with a cache for 256 in either; llama.cpp's is of f16.

`of the bandwidth` is the share that the bytes which a step reads (weights, and the keys
and values of 129 positions), in that time, are of what as many threads read of long
arrays (`numpy.dot`).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from build_memory import SIZES

MODEL = Path(__file__).parent / "decoders" / "gguf.py"
PAGE = Path(__file__).parent.parent / "docs" / "precision.md"
MARKS = "<!-- written by benchmarks/decoder_table.py -->", "<!-- end of decoders -->"
DEPTH = 64  # of a head
PROMPT = 128  # tokens
# type → bytes of so many elements
BYTES = {
    "F32": (4, 1),
    "BF16": (2, 1),
    "Q8_0": (34, 32),
    "Q4_0": (18, 32),
    "Q5_0": (22, 32),
    "Q4_K": (144, 256),
    "Q5_K": (176, 256),
    "Q6_K": (210, 256),
}
MIXED = "Q4_K_M"  # Q4_K, and Q6_K of some matrices
TYPES = ["F32", "BF16", "Q8_0", "Q4_0", MIXED]
# where a block has scales of half precision, and how large the integers that they
# scale are (a mean square of all), with those of blocks
SCALES = {
    "Q8_0": ((0,), 74),
    "Q4_0": ((0,), 4.6),
    "Q5_0": ((0,), 9.2),
    "Q4_K": ((0, 2), 330),
    "Q5_K": ((0, 2), 660),
    "Q6_K": ((208,), 1360),
}
NAMES = {
    "words": "token_embd",
    "norm": "output_norm",
    "head": "output",
    **{name: f"attn_{name}" for name in "qkv"},
    "o": "attn_output",
    "before": "attn_norm",
    "after": "ffn_norm",
    **{name: f"ffn_{name}" for name in ("gate", "up", "down")},
}
CLOCK = """
import sys, time
import numpy as np

path, target, steps, prompts, threads = sys.argv[1:]
clock = time.process_time if threads == "1" else time.perf_counter

def least(count, call):
    call()
    found = []
    for _ in range(int(count)):
        start = clock()
        call()
        found.append(clock() - start)
    return min(found)
"""
CALL = """
import aotc

model = aotc.load(path, allow_unsigned=True, target=target, threads=int(threads))
token, tokens = np.ones((1, 1), "i4"), np.ones((1, 128), "i4")
prefill = least(prompts, lambda: model.prefill(tokens=tokens))
step = least(steps, lambda: model.step(tokens=token, position=np.int32(128)))
print(step, prefill)
"""
CALL_LLAMA = """
import ctypes
import llama_cpp as llama

quiet = llama.llama_log_callback(lambda *_: None)
llama.llama_log_set(quiet, ctypes.c_void_p())
llama.llama_backend_init()
file = llama.llama_model_load_from_file(
    path.encode(), llama.llama_model_default_params()
)
asked = llama.llama_context_default_params()
asked.n_ctx = asked.n_batch = asked.n_ubatch = 256
asked.n_threads = asked.n_threads_batch = int(threads)
model = llama.llama_init_from_model(file, asked)

def run(count, at):
    memory = llama.llama_get_memory(model)
    llama.llama_memory_seq_rm(memory, 0, at, -1)
    tokens = (llama.llama_token * count)(*[1] * count)
    assert not llama.llama_decode(model, llama.llama_batch_get_one(tokens, count))

prefill = least(prompts, lambda: run(128, 0))
step = least(steps, lambda: run(1, 128))
print(step, prefill)
"""
READ = """
x, y = (np.ones(1 << 26, np.float32) for _ in range(2))
print(2 * x.nbytes / least(steps, lambda: np.dot(x, y)))
"""


def main():
    """Print a row for each size and type."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="*", default=["348M", "1.1B"])
    parser.add_argument("--types", nargs="*", choices=[*BYTES, MIXED], default=TYPES)
    parser.add_argument("--target", default="x86_64-v4-dot")
    parser.add_argument("--llama", action="store_true", help="time llama.cpp, too")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40, help="of each round")
    parser.add_argument("--prompts", type=int, default=3, help="of each round")
    parser.add_argument("--folder", type=Path, help="where to work, instead of /tmp")
    parser.add_argument("--rows", type=Path, help="rows that were printed before")
    parser.add_argument("--write", action="store_true", help="put it into docs/")
    asked = parser.parse_args()
    before = asked.rows.read_text().splitlines() if asked.rows else []
    rows = [json.loads(line) for line in before if line.startswith("{")]
    for size in asked.sizes if not rows else ():
        for kind in asked.types:
            for row in measure(size, kind, asked):
                rows.append(row)
                print(json.dumps(row), flush=True)
    table = table_of(rows)
    print(table)
    if asked.write:
        page = PAGE.read_text()
        head, rest = page.split(MARKS[0])
        tail = rest.split(MARKS[1])[1]
        PAGE.write_text(f"{head}{MARKS[0]}\n\n{table}\n\n{MARKS[1]}{tail}")


def measure(size, kind, asked):
    """Yield the rows of a model size and weight type: one for each level of
    numerics.
    """
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        work = Path(folder)
        file = work / "model.gguf"
        write_gguf(SIZES[size], kind, file)
        (work / "model.py").write_text(MODEL.read_text())
        bundles = {
            numerics: build(work, numerics, asked.target)
            for numerics in ["strict"] + ["relaxed"] * (kind[0] == "Q")
        }
        found = {numerics: [] for numerics in bundles}
        peers, rates = [], []
        for _ in range(asked.rounds):
            rates += run(READ, "", asked)
            for numerics, bundle in bundles.items():
                found[numerics].append(run(CALL, bundle, asked))
            if asked.llama:
                peers.append(run(CALL_LLAMA, file, asked))
        for numerics, times in found.items():
            row = {"size": size, "type": kind, "numerics": numerics}
            row |= {"threads": asked.threads, "bandwidth": max(rates)}
            names = "step", "prefill"
            row |= zip(names, map(min, zip(*times, strict=True)), strict=True)
            if peers:
                names = "llama_step", "llama_prefill"
                row |= zip(names, map(min, zip(*peers, strict=True)), strict=True)
            yield row


def run(program, path, asked):
    """Run a program text in a child process; return the numbers that it prints."""
    given = [path, asked.target, asked.steps, asked.prompts, asked.threads]
    threads = {"OPENBLAS_NUM_THREADS": str(asked.threads)}
    found = subprocess.run(
        [sys.executable, "-c", CLOCK + program, *map(str, given)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **threads},
    )
    return [float(text) for text in found.stdout.split()]


def type_of(kind, name, size):
    """Return the GGUF type of a named matrix in a file of weight type `kind`.

    In `Q4_K_M` the head is of Q6_K, and the values and what leads down of each third
    layer and of the first and last eighths (`llama_tensor_get_type` of llama.cpp).
    """
    if kind != MIXED:
        return kind
    *layer, own = name.removeprefix("layers.").split(".")
    if layer and own in ("v", "down"):
        n, eighth = int(layer[0]), size.layers // 8
        more = n < eighth or n >= 7 * size.layers // 8 or (n - eighth) % 3 == 2
        return "Q6_K" if more else "Q4_K"
    return "Q6_K" if own == "head" else "Q4_K"


def bytes_of(size, kind, without=()):
    """Return the bytes of a file's matrices, except those in `without`."""
    total = 0
    for name, shape in size.tensors():
        if name not in without and len(shape) > 1:
            held, elements = BYTES[type_of(kind, name, size)]
            total += int(np.prod(shape)) * held // elements
    return total


def bytes_read(size, kind):
    """Return the bytes that one decoding step reads: weights and caches."""
    item = 2 if kind == "BF16" else 4
    caches = 2 * size.layers * (PROMPT + 1) * size.width * item
    return bytes_of(size, kind, without=("words",)) + caches


def write_gguf(size, kind, path):
    """Write a file of random weights that llama.cpp reads."""
    import gguf

    writer = gguf_writer(size, path)
    rng = np.random.default_rng(0)
    for place, shape in size.tensors():
        *layer, own = place.removeprefix("layers.").split(".")
        name = ".".join([*(f"blk.{n}" for n in layer), NAMES[own], "weight"])
        if len(shape) == 1:
            writer.add_tensor(name, np.ones(shape, "f4"))
            continue
        own = type_of(kind, place, size)
        raw = getattr(gguf.GGMLQuantizationType, own)
        writer.add_tensor(name, random_weights(rng, shape, own), raw_dtype=raw)
    finish(writer)


def gguf_writer(size, path):
    """Return a GGUF writer with the metadata of a LLaMA-style decoder written."""
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    heads = size.width // DEPTH
    writer.add_block_count(size.layers)
    writer.add_context_length(2048)
    writer.add_embedding_length(size.width)
    writer.add_feed_forward_length(size.hidden)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(DEPTH)
    writer.add_vocab_size(size.words)
    writer.add_tokenizer_model("no_vocab")
    return writer


def finish(writer):
    """Write the GGUF file of a writer whose tensors were added."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def random_weights(rng, shape, kind):
    """Return random weights of a GGUF type, scaled to keep activations' size."""
    rows, columns = shape
    size = columns**-0.5
    if kind in ("F32", "BF16"):
        values = rng.standard_normal((min(rows, 64), columns), np.float32) * size
        values = np.tile(values, (-(-rows // len(values)), 1))[:rows]
        if kind == "F32":
            return values
        return np.ascontiguousarray(values.view("u2")[:, 1::2]).view("u1")
    held, elements = BYTES[kind]
    blocks = rng.integers(0, 256, (rows, columns // elements, held), "u1")
    starts, integers = SCALES[kind]
    for start in starts:
        blocks[:, :, start : start + 2] = np.float16([size / integers]).view("u1")
    return blocks.reshape(rows, -1)


def build(work, numerics, target):
    """Build the GGUF model at a level of numerics; return the bundle's path."""
    out = work / numerics
    command = ["aotc", "build", str(work / "model.py"), "-o", str(out)]
    command += ["--target", target, "--numerics", numerics]
    command += ["--self-check=off", "--no-sign"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return next(out.iterdir())


def table_of(rows):
    """Return all rows as a Markdown table."""
    head = (
        "| decoder | weights | numerics | step, ms | tokens/s | of the bandwidth "
        "| llama.cpp, ms | ratio | prompt, ms | llama.cpp, ms | ratio |"
    )
    lines = [head, "|---|---|---|" + "--:|" * 8]
    for row in rows:
        read = bytes_read(SIZES[row["size"]], row["type"])
        share = read / row["step"] / row["bandwidth"]
        cells = [row["size"], row["type"], row["numerics"]]
        cells += [f"{1e3 * row['step']:.1f}", f"{1 / row['step']:.1f}", f"{share:.0%}"]
        cells += against(row, "step")
        cells += [f"{1e3 * row['prefill']:.0f}", *against(row, "prefill")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def against(row, name):
    """Return cells with llama.cpp's time, and the ratio to it; dashes if not
    measured.
    """
    other = row.get(f"llama_{name}")
    if other is None:
        return ["–", "–"]
    return [f"{1e3 * other:.1f}", f"{row[name] / other:.2f}"]


if __name__ == "__main__":
    main()

"""Round a trained decoder to 4 bits by llama.cpp and by aotc: how near each stays.

    pip install -e '.[compiler]' gguf cyllama
    python benchmarks/precision_gguf.py FOLDER [--write]

Trains `decoders/characters.py` with its compiled step on all but the last part of the
text of examples/gpt, writes a GGUF file of f32, and lets llama.cpp quantise that with
what it does by default (no importance matrix); `cyllama` is llama.cpp as a Python
module. aotc reads each file (`aotc.Weights.load`), and rounds that of f32 by its own
recipes with 128 pieces of the text that was trained on. What is lost is measured on
pieces of the part that was held out: how often the likeliest character is another one
than that of floats, and the divergence (KL, nats). `bits` are those of all weights, by
their number. What FOLDER has is not made again.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from build_memory import Size
from decoder_table import finish, gguf_writer
from precision import EXAMPLES, PAGE, load_module, measured, tell

import aotc
from aotc import importers
from aotc.core.array_files import open_arrays
from aotc.dialects import context
from aotc.mlir import ir
from aotc.pipeline import build
from aotc.programs.program import Program
from aotc.quantization.calibration import QuantizationOptions
from aotc.quantization.data import Data
from aotc.quantization.measuring import Yardstick
from aotc.quantization.metrics import LossMetric
from aotc.quantization.quantizer import quantize

Array = np.ndarray[Any, Any]

MODEL = Path(__file__).parent / "decoders" / "characters.py"
MARKS = "<!-- written by benchmarks/precision_gguf.py -->", "<!-- end of 4 bits -->"
STEPS, HELD_OUT = 300, 1300  # characters that nothing is trained on
CALIBRATION, PIECES = 128, 512
FTYPES = {"Q4_0": 2, "Q4_K_S": 14, "Q4_K_M": 15}  # `llama_ftype` of llama.cpp
METHODS = ((), ("awq", "gptq"), ("awq", "gptq", "bias-correction"))
HEAD = "| weights | by | bits | answers that differ | KL |\n|---|---|--:|--:|--:|"


def main() -> None:
    """Train and quantise a decoder, measure each method, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="of what was trained")
    parser.add_argument("--write", action="store_true", help="put it into docs/")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    file = asked.folder / "rows.json"
    if not file.exists():
        text = np.frombuffer((EXAMPLES / "gpt" / "text.txt").read_bytes(), "u1")
        floats = _train(asked.folder, text[:-HELD_OUT])
        file.write_text(json.dumps([*_rows(asked.folder, floats, text)], indent=1))
    rows = json.loads(file.read_text())
    table = "\n".join([HEAD, *map(_line, rows)])
    print(table)
    if asked.write:
        head, _, rest = PAGE.read_text().partition(MARKS[0])
        _, _, tail = rest.partition(MARKS[1])
        PAGE.write_text(f"{head}{MARKS[0]}\n\n{table}\n\n{MARKS[1]}{tail}")


def _line(row: dict[str, Any]) -> str:
    """Return a row of the table."""
    return (
        f"| {row['weights']} | {row['by']} | {row['bits']:.2f} | {row['lost']:.2%} "
        f"| {row['kl']:.1e} |"
    )


def _pieces(text: Array, count: int, length: int, seed: int) -> Array:
    """Return random pieces of a text, each with the next character."""
    places = np.random.default_rng(seed).integers(0, len(text) - length, count)
    pieces: Array = text[places[:, None] + np.arange(length + 1)].astype("i4")
    return pieces


# ---- files --------------------------------------------------------------------------


def _train(folder: Path, text: Array) -> Path:
    """Train the decoder unless that is done; return its f32 file."""
    file = folder / "f32.gguf"
    if file.exists():
        return file
    source = folder / "model.py"
    shutil.copy(MODEL, source)
    module = load_module(source)
    report = build(source, output=folder / "trainer", self_check="off", force=True)
    model = aotc.load(report.bundle)
    for step in range(STEPS):
        pieces = _pieces(text, module.BATCH, module.LENGTH, step)
        value = model.train_step(tokens=pieces[:, :-1], targets=pieces[:, 1:])
        if not step % 50 or step == STEPS - 1:
            tell(f"step {step}: {float(value):.3f} nats per character")
    model.save_state(folder / "states.safetensors")
    _write_floats(module, folder / "states.safetensors", file)
    return file


def _write_floats(module: ModuleType, states: Path, file: Path) -> None:
    """Write trained parameters as a GGUF file."""
    sizes = module.WIDTH, module.HIDDEN, module.LAYERS, module.VOCABULARY
    writer = gguf_writer(Size(*sizes), file)
    stored = open_arrays(states, "states")
    for name in stored:
        _, is_parameter, own = name.partition("state.params.")
        if is_parameter:
            writer.add_tensor(own, stored.copy(name))
    finish(writer)


def _quantized_by_llama(floats: Path, kind: str) -> Path:
    """Quantise an f32 file by llama.cpp; return the new file."""
    from cyllama.llama import llama_cpp

    llama_cpp.disable_logging()
    file = floats.with_name(f"{kind}.gguf")
    asked = llama_cpp.LlamaModelQuantizeParams()
    asked.ftype, asked.nthread = FTYPES[kind], 1
    llama_cpp.model_quantize(str(floats), str(file), asked)
    return file


def _loaded(file: Path) -> Program:
    """Return the decoder with the weights of a file."""
    folder = file.with_suffix("")
    folder.mkdir(exist_ok=True)
    shutil.copy(MODEL, folder / "model.py")
    shutil.copy(file, folder / "model.gguf")
    return importers.load(folder / "model.py", ("predict",))


# ---- rows ---------------------------------------------------------------------------


def _rows(folder: Path, floats: Path, text: Array) -> Iterator[dict[str, Any]]:
    """Yield the loss and size of each quantisation method."""
    program = _loaded(floats)
    arrays = program.parameters.values()
    before, count = (sum(getattr(x, k) for x in arrays) for k in ("nbytes", "size"))
    length = load_module(MODEL).LENGTH
    known = _pieces(text[:-HELD_OUT], CALIBRATION, length, 1_000_000)[:, :-1]
    unknown = _pieces(text[-HELD_OUT:], PIECES, length, 1_000_001)[:, :-1]
    calibration, held_out = (Data({"tokens": x}, "text") for x in (known, unknown))
    yardstick = Yardstick.of(program, held_out, LossMetric())
    for kind in FTYPES:
        tell(kind)
        file = _quantized_by_llama(floats, kind)
        row = {"weights": kind, "by": "llama.cpp", "bits": 8 * _bytes(file) / count}
        yield row | measured(_loaded(file), yardstick)
    for methods in METHODS:
        tell("+".join(("int4-g32", *methods)))
        with context(), ir.Location.unknown():
            choice = QuantizationOptions("int4-g32", methods=methods)
            found = quantize(_loaded(floats), choice, calibration)
            lost = measured(found.program, yardstick)
        share = found.report.bytes_after / found.report.bytes_before
        title = " + ".join(("int4-g32", *methods))
        bits = 8 * share * before / count
        yield {"weights": title, "by": "aotc", "bits": bits} | lost


def _bytes(file: Path) -> int:
    """Return the bytes of a GGUF file's tensors."""
    import gguf

    return sum(int(x.n_bytes) for x in gguf.GGUFReader(file).tensors)


if __name__ == "__main__":
    main()

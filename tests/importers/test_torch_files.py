"""Files of PyTorch (.pt2): what they hold, and which are refused."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.errors import AotcError, InputError
from aotc.importers import load
from tests.refusals import refusal

torch = pytest.importorskip("torch")
from tests.importers.torch_modules import Call  # noqa: E402

# ---- modules in a model.py ----------------------------------------------------------


def test_a_pt2_file_is_a_program(tmp_path):
    batch = torch.export.Dim("batch")
    module = torch.nn.Linear(3, 2)
    program = torch.export.export(
        module, (torch.ones(2, 3),), dynamic_shapes=({0: batch},)
    )
    file = tmp_path / "linear.pt2"
    torch.export.save(program, file)
    loaded = load(file)
    assert [entry.name for entry in loaded.entries] == ["main"]
    assert loaded.source["kind"] == "torch"
    with pytest.raises(InputError, match="it has main"):
        load(file, ("forward",))


class Large(torch.nn.Module):
    """A module with tensors of each kind that a .pt2 file maps, or does not."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(400, 256)
        self.head = torch.nn.Linear(256, 400, bias=False)
        self.head.weight = self.words.weight
        turned = torch.randn(256, 300, dtype=torch.bfloat16).T
        self.turned = torch.nn.Parameter(turned, requires_grad=False)
        whole = torch.randn(200, 200)
        self.register_buffer("part", whole[50:, 1:101], persistent=False)
        self.register_buffer("whole", whole)
        self.small = torch.nn.Parameter(torch.randn(3))

    def forward(self, x):
        """Something of all of them."""
        sums = self.part.sum() + self.whole.sum() + self.turned.float().sum()
        return self.head(self.words(x)) + sums + self.small.sum()


def test_the_large_tensors_of_a_pt2_file_are_mapped_and_equal(tmp_path):
    exported = torch.export.export(Large(), (torch.arange(2),))
    file = tmp_path / "large.pt2"
    torch.export.save(exported, file)
    from aotc.importers.torch import mapped_archive

    mapped, copied = mapped_archive.load(file), torch.export.load(file)
    for kind in ("state_dict", "constants"):
        found, expected = getattr(mapped, kind), getattr(copied, kind)
        assert [*found] == [*expected]
        for name, tensor in expected.items():
            assert torch.equal(found[name], tensor)
            assert type(found[name]) is type(tensor)
            assert found[name].stride() == tensor.stride()
            assert found[name].requires_grad == tensor.requires_grad
    weights = mapped.state_dict
    assert weights["words.weight"].data_ptr() == weights["head.weight"].data_ptr()
    x = torch.arange(3, 5)
    assert torch.equal(mapped.module()(x), copied.module()(x))
    content = bytearray(file.read_bytes())
    first = content.index(weights["words.weight"].detach().numpy().tobytes())
    content[first + 5] ^= 1
    file.write_bytes(content)
    assert "checksum" in refused_file(file)


def test_weights_of_a_pt2_file_take_no_memory(tmp_path):
    module = torch.nn.Linear(4096, 4096)
    exported = torch.export.export(module, (torch.ones(2, 4096),))
    torch.export.save(exported, tmp_path / "linear.pt2")
    code = """
import sys
from pathlib import Path
import torch
from aotc.importers.torch import load

def held():
    rows = Path("/proc/self/status").read_text().splitlines()
    return int(dict(row.split(":", 1) for row in rows)["RssAnon"].split()[0]) << 10

load(Path(sys.argv[1]).with_name("small.pt2"))
before = held()
kept = load(Path(sys.argv[1]))
print(held() - before)
"""
    small = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(2, 2),))
    torch.export.save(small, tmp_path / "small.pt2")
    given = [sys.executable, "-c", code, str(tmp_path / "linear.pt2")]
    taken = int(subprocess.check_output(given))
    assert taken < module.weight.nbytes / 4


def test_damaged_pt2_files_are_refused(tmp_path):
    whole, file = tmp_path / "whole.pt2", tmp_path / "broken.pt2"
    module = torch.nn.Linear(3, 2)
    torch.export.save(torch.export.export(module, (torch.ones(2, 3),)), whole)
    data = whole.read_bytes()
    for broken in (b"", b"PK\x03\x04nothing", data[: len(data) // 2], data[:-1]):
        file.write_bytes(broken)
        refused_file(file)
    torch.save(module.state_dict(), file)
    assert "archive_format" in refused_file(file)


def refused_file(file) -> str:
    """Why a file cannot be read."""
    return refusal(InputError, "bad-file", load, file).message


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(AotcError) as caught:
        aotc.from_torch(None)
    assert caught.value.code == "missing-extra"
    assert "[torch]" in caught.value.hint


# ---- ops ----------------------------------------------------------------------------


def test_files_with_derived_sizes_are_read(tmp_path):
    """torch.export.load takes the range of `2*s0` for one of a symbol."""

    def forward(x):
        parts = torch.cat(x.chunk(2, 2), 1)
        return torch.nn.functional.pixel_unshuffle(x, 2), parts

    h, w = torch.export.Dim("h"), torch.export.Dim("w")
    shapes = (({2: 2 * h, 3: 2 * w},),)
    example = (torch.randn(1, 3, 8, 16),)
    program = torch.export.export(Call(forward), example, dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "net.pt2")
    module = load(tmp_path / "net.pt2").module
    for size in ((8, 16), (6, 10), (2, 4)):
        x = torch.randn(1, 3, *size)
        found = reference.evaluate(module, "main", [x.numpy()])
        for ours, theirs in zip(found, forward(x), strict=True):
            np.testing.assert_allclose(ours, theirs)


SAVED = """
import sys, torch
{register}
class Net(torch.nn.Module):
    def forward(self, x):
        {body}
torch.export.save(torch.export.export(Net(), (torch.ones(3),)), sys.argv[1])
"""

PT2E = """
        ops, levels = torch.ops.quantized_decomposed, (0.5, 0, -128, 127, torch.int8)
        y = ops.quantize_per_tensor(x, *levels)
        return ops.dequantize_per_tensor(y, *levels)
"""

OWN = """
library = torch.library.Library("own", "DEF")
library.define("twice(Tensor x) -> Tensor")
library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
library._register_fake("twice", torch.empty_like)
"""


def saved(file, register, body):
    """A .pt2 file that another process has written."""
    text = SAVED.format(register=register, body=body.strip())
    subprocess.run([sys.executable, "-c", text, str(file)], check=True)
    return file


def test_files_of_pt2e_need_no_import(tmp_path):
    register = "import torch.ao.quantization.fx._decomposed"
    module = load(saved(tmp_path / "net.pt2", register, PT2E)).module
    (found,) = reference.evaluate(module, "main", [np.float32([0.6, 1.3, -9])])
    np.testing.assert_array_equal(found, [0.5, 1.5, -9])


def test_an_op_of_a_package_that_is_not_imported_is_named(tmp_path):
    file = saved(tmp_path / "net.pt2", OWN, "return torch.ops.own.twice(x)")
    with pytest.raises(InputError, match=r"torch.ops.own.twice.default, which is") as e:
        load(file)
    assert "build a model.py that imports it" in e.value.hint
    assert "torch.ao.quantization.fx._decomposed" in e.value.hint


def test_a_file_that_returns_an_unknown_type_names_its_module(tmp_path):
    @dataclasses.dataclass
    class Output:
        y: torch.Tensor

    name = "zoo.outputs.Output"
    torch.export.register_dataclass(Output, serialized_type_name=name)
    torch.export.save(
        torch.export.export(Call(Output), (torch.ones(3),)), tmp_path / "net.pt2"
    )
    torch.utils._pytree._deregister_pytree_node(Output)
    with pytest.raises(InputError) as caught:
        load(tmp_path / "net.pt2")
    assert "`import zoo.outputs`" in caught.value.hint
    assert "torch.export.load('net.pt2')" in caught.value.hint

"""The cache of an imported decoder: written and read where it lies."""

import pytest

from aotc.dialects.functions import functions_of
from aotc.importers import load
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.target import Target

torch = pytest.importorskip("torch")


class Step(torch.nn.Module):
    """Attention of one token to the positions up to its own."""

    def __init__(self, write):
        super().__init__()
        self.write = write
        self.projection = torch.nn.Linear(32, 96)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, 2, 64, 16))

    def forward(self, x, position):
        q, k, v = self.projection(x).view(1, 1, 3, 2, 16).permute(2, 0, 3, 1, 4)
        self.write(self.keys, position, k)
        self.write(self.values, position, v)
        seen = torch.arange(64) <= position
        return torch.nn.functional.scaled_dot_product_attention(
            q, self.keys, self.values, seen[None, None, None]
        )


def copy(buffer, position, new):
    buffer.index_copy_(2, position, new)


def assign(buffer, position, new):
    buffer[:, :, position] = new


@pytest.mark.parametrize("write", [copy, assign])
def test_a_module_writes_one_position_and_reads_its_cache_as_it_lies(write, tmp_path):
    given = torch.ones(1, 1, 32), torch.tensor([3])
    torch.export.save(torch.export.export(Step(write), given), tmp_path / "step.pt2")
    unit = Unit(load(tmp_path / "step.pt2")).fork(Target.parse("x86_64-v3"))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    text = str(functions_of(unit.module)["main"].operation)
    assert "call @decoder" in text
    assert "graph.transpose" not in text
    run_passes(unit, PASS_STAGES[2].passes())
    assert str(unit.module).count("call @iree.write_window") == 2

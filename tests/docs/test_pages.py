"""What pages list is what there is: passes, levels, families of kernels, processors."""

import re
from pathlib import Path

from aotc.cli.main import main
from aotc.evidence.models import EXECUTION_MODELS
from aotc.evidence.peers import PEERS
from aotc.importers.onnx.ops.quantization_microsoft import TABLE as QUANTISED
from aotc.kernels.families import FAMILIES
from aotc.machine.target import TARGETS
from aotc.passes import PASSES
from aotc.passes.stages import PASS_STAGES, all_passes
from aotc.weight_formats.ggml_types import TYPES
from aotc.worker.rewrites import REWRITES

ROOT = Path(__file__).parents[2]


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


def row(text, first):
    """The row of a table whose first cell is given, without that cell."""
    (found,) = re.findall(rf"^\| {re.escape(first)} \|(.*)\|$", text, re.MULTILINE)
    return found


def words(text):
    return re.findall(r"[a-z0-9]+(?:[-_][a-z0-9]+)*", text)


def test_stages_name_their_passes_in_order():
    text = page("docs/passes.md")
    for stage in PASS_STAGES:
        *_, cell = row(text, f"`{stage.name}`").split("|")
        without_options = re.sub(r"\(.*?\)", "", cell)
        assert tuple(words(without_options)) == stage.names


def test_the_code_is_made_with_the_rewrites_that_are_named():
    *_, cell = row(page("docs/passes.md"), "`vmfb`").split("|")
    assert words(cell) == [each.name for each in REWRITES]


def test_levels_name_their_passes():
    text = page("docs/passes.md")
    for level in {each.level for each in all_passes()}:
        rows = re.findall(rf"^\| `-O{level}`.*?\|(.*)\|$", text, re.MULTILINE)
        named = PASSES.keys() & {*words(" ".join(rows))}
        assert named == {each.name for each in all_passes() if each.level == level}


def test_the_families_that_can_be_left_out_are_named():
    (sentence,) = re.findall(r"The families are (.*?);", page("docs/passes.md"))
    assert FAMILIES.keys() - {*words(sentence)} == set()


def test_each_processor_is_in_the_tables_of_targets():
    names = {name for name, each in TARGETS.items() if each.backend == "llvm-cpu"}
    for file in ("docs/targets.md", "docs/processors.md"):
        rows = re.findall(r"^\| (.*?) \|", page(file), re.MULTILINE)
        listed = {name for cell in rows for name in re.findall(r"`(.*?)`", cell)}
        assert names - listed == set(), file


def test_element_types_of_gguf_are_those_of_the_table():
    text = page("docs/quantised-weights.md")
    listed = set(re.findall(r"`([A-Z]+[0-9][0-9A-Z_]*)`", text.split("| others |")[0]))
    assert listed | {"I16", "I32"} == {kind.name for kind in TYPES.values()}


def test_operators_of_onnx_runtime_are_those_of_the_table():
    text = page("docs/quantised-weights.md").partition("| operators of")[2]
    named = set(re.findall(r"`([A-Z]\w+)`", text.split("\n\n")[0]))
    imported = {key for key in QUANTISED if key.startswith("com.microsoft.")}
    assert named == {key.removeprefix("com.microsoft.") for key in imported}


def test_execution_models_are_those_of_the_table():
    text = page("docs/execution-models.md")
    for name in EXECUTION_MODELS:
        assert row(text, f"`{name}`")
    help_text = page("cli/evidence_options.py")
    assert f"Execution models: {', '.join(EXECUTION_MODELS)}." in help_text


def test_peers_are_those_of_the_table(capsys):
    text = page("docs/execution-models.md")
    for name, peer in PEERS.items():
        files = row(text, f"`{name}`").split("|")[0]
        assert tuple(re.findall(r"`(.*?)`", files)) == peer.suffixes
    assert main(["bench", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"the same requests: {', '.join(PEERS)}." in told

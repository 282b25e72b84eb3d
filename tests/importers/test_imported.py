"""Networks of other frameworks as entries, and inside of entries."""

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.errors import InputError
from aotc.importers.common.imported import Imported
from aotc.tracing.findings import grouped_findings, require_none

NETWORK = """
import numpy as np
import aotc
from aotc.importers.common.imported import Imported

def counting(weights, state, x):
    return {"calls": state["calls"] + 1}, x * weights["scale"]

net = Imported(
    counting,
    {"x": aotc.Spec(("n",))},
    aotc.Weights({"scale": np.float32([3])}),
    aotc.State({"calls": np.int32(0)}),
)
"""


def test_an_imported_network_is_an_entry_by_its_name_in_the_module(model):
    program = model.load(NETWORK)
    (entry,) = program.entries
    assert entry.name == "net"
    assert list(program.parameters) == ["net.scale", "net_state.calls"]
    assert (entry.reads, entry.updates) == (("net", "net_state"), ("net_state",))


def test_an_imported_network_is_called_inside_of_an_entry(model):
    program = model.load(
        NETWORK
        + """
@aotc.entry(weights=net.weights, state=net.state.frozen, x=aotc.Spec((2,)))
def twice(weights, state, x):
    state, y = net(weights, state, x)
    return net(weights, state, y)
"""
    )
    ones = np.ones(2, np.float32)
    weights, state = program.parameters.values()
    calls, y = reference.evaluate(program.module, "twice", [weights, state, ones])
    assert (calls, list(y)) == (2, [9, 9])


def test_two_imported_networks_do_not_share_names(model):
    program = model.load(NETWORK + NETWORK.replace("net =", "other ="))
    assert [entry.name for entry in program.entries] == ["net", "other"]
    assert "other.scale" in program.parameters


def test_inputs_may_be_called_weights():
    net = Imported(
        lambda weights, x: x,
        {"weights": aotc.Spec((2,))},
        aotc.Weights({"w": np.zeros(1, np.float32)}),
    )
    assert list(net.entry("net").sources) == ["weights_", "weights"]


def test_weights_can_be_taken_over_without_a_copy():
    array = np.zeros(3, np.float32)
    assert np.shares_memory(aotc.Weights([array], copy=False).arrays[0], array)
    assert not np.shares_memory(aotc.Weights([array]).arrays[0], array)


def test_everything_unsupported_is_one_error():
    uses = [("A", "no", "x.py:1", "do B"), ("C", "nor", "x.py:2", "")]
    with pytest.raises(InputError) as caught:
        require_none(grouped_findings([*uses, *uses]))
    assert caught.value.code == "unsupported-ops"
    assert "A (2×): no; at x.py:1\n  C (2×): nor" in caught.value.message
    assert caught.value.hint == "do B"
    require_none([])

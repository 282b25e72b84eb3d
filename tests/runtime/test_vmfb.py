"""Reading what a module needs from its bytes."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotc.artifacts import vmfb
from aotc.errors import InputError


def test_reads_the_runtime_interface_of_a_module(module):
    abi = vmfb.runtime_abi(module)
    assert abi["iree_vm_bytecode"] == [17, 0]
    assert abi["module_deps"] == {"hal": 7, "io_parameters": 0}
    assert [name.partition("-")[0] for name in abi["executable_formats"]] == [
        "embedded"
    ]
    assert vmfb.ptx(module) is None


def test_finds_the_newest_ptx():
    text = b"\0.version 7.6\n.target sm_80\0 .version 8.10\n.target sm_90a,texmode\0"
    assert vmfb.ptx(text) == ("8.10", "sm_90a")


def test_finds_what_code_for_vulkan_asks_of_a_device():
    """Capabilities end where another instruction begins, or the file."""
    head = struct.pack("<5I", 0x07230203, 0x10300, 0, 9, 0)
    shader = struct.pack("<4I", 2 << 16 | 17, 1, 2 << 16 | 17, 9)
    other = struct.pack("<4I", 5 << 16 | 10, 39, 2 << 16 | 17, 22)
    assert vmfb.vulkan_features(b"\0\0\0" + head + shader + other) == {"shaderFloat16"}
    assert vmfb.vulkan_features(head + shader[:12]) == set()
    assert vmfb.vulkan_features(head) == set()


@given(st.binary(max_size=100))
def test_refuses_other_bytes(data):
    with pytest.raises(InputError):
        vmfb.runtime_abi(data)


@given(st.integers(0, 4095), st.binary(min_size=1, max_size=4))
def test_damaged_modules_do_no_more_than_fail(module, offset, noise):
    damaged = module[:offset] + noise + module[offset + len(noise) :]
    for data in (damaged, module[: offset + 100]):
        try:
            vmfb.runtime_abi(data)
        except InputError as error:
            assert error.code == "not-a-vmfb"  # noqa: PT017

"""The frame around the graph functions on IREE's side, as text.

Globals for weights and states, the exported functions around the graph functions, and
the executables of kernels. What they surround is declared here and defined by bytecode.
"""

from __future__ import annotations

from collections.abc import Sequence

from aotc.dialects.functions.entries import Entry
from aotc.dialects.functions.parameters import SCOPE
from aotc.dialects.iree_text.bodies import LOADER_FUNCTIONS
from aotc.dialects.types import Tensor, lowered_type


def quote(name: str) -> str:
    """Return a name quoted for MLIR; characters beyond ASCII are escaped bytes."""
    plain = (
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\{byte:02X}"
        for byte in name.encode()
    )
    return f'"{"".join(plain)}"'


def _type(tensor: Tensor) -> str:
    """Return the lowered type of a tensor as MLIR text."""
    return str(lowered_type(tensor))


def parameter(name: str, kind: Tensor, *, is_mutable: bool) -> str:
    """Return the line that defines the global of a weight, or of a leaf of a state."""
    access = "private mutable" if is_mutable else "private"
    initial = f'#flow.parameter.named<"{SCOPE}"::{quote(name)}>'
    return f"util.global {access} @{quote(name)} = {initial} : {_type(kind)}"


def loader_declarations() -> list[str]:
    """Return lines that declare the loader's functions for collectives."""
    return [
        f"util.func private {name}{kind}" for name, kind in LOADER_FUNCTIONS.items()
    ]


def declaration(entry: Entry, name: str) -> list[str]:
    """Return the line that declares the graph function of an entry as `name`."""
    operands = ", ".join(_type(port.type) for port in entry.arguments)
    results = ", ".join(_type(port.type) for port in entry.results)
    return [f'func.func private @"{name}"({operands}) -> ({results})']


def public_function(entry: Entry, graph: str) -> list[str]:
    """Return lines of an entry's exported function; weights and states are globals.

    Args:
        entry: what it is of.
        graph: the name of its graph function.
    """
    inputs = [
        f"%{i}: {_type(port.type)} {{iree.abi.name = {quote(port.name)}}}"
        for i, port in enumerate(entry.arguments)
        if port.kind == "input"
    ]
    outputs = [
        f"%r{i}" for i, port in enumerate(entry.results) if port.kind == "output"
    ]
    output_types = [_type(port.type) for port in entry.ports("output")]
    signature = f"({', '.join(inputs)}) -> ({', '.join(output_types)})"
    lines = [f"func.func @{entry.name}{signature} {{"]
    lines += [
        f"  %{i} = util.global.load @{quote(port.name)} : {_type(port.type)}"
        for i, port in enumerate(entry.arguments)
        if port.kind != "input"
    ]
    operands = ", ".join(f"%{i}" for i in range(len(entry.arguments)))
    operand_types = ", ".join(_type(port.type) for port in entry.arguments)
    results = ", ".join(f"%r{i}" for i in range(len(entry.results)))
    result_types = ", ".join(_type(port.type) for port in entry.results)
    assigned = f"{results} = " if results else ""
    lines.append(
        f'  {assigned}func.call @"{graph}"({operands}) : '
        f"({operand_types}) -> ({result_types})"
    )
    lines += [
        f"  util.global.store %r{i}, @{quote(port.name)} : {_type(port.type)}"
        for i, port in enumerate(entry.results)
        if port.kind == "state"
    ]
    return [*lines, f"  {_return(outputs, output_types)}", "}"]


def _return(values: Sequence[str], types: Sequence[str]) -> str:
    """Return the text of a return op of some values."""
    if not values:
        return "return"
    return f"return {', '.join(values)} : {', '.join(types)}"


def executable(
    name: str,
    body: str,
    memories: Sequence[str],
    results: int,
    elements: Sequence[str],
    symbols: int,
    tied: Sequence[int] = (),
    awaited: int = 0,
) -> list[str]:
    """Return lines of an executable that runs a CPU kernel, a memref per binding.

    Args:
        name: of the executable, and of its function.
        body: the name of the kernel's function.
        memories: the types of the memrefs that this takes.
        results: how many of them, the last ones, are results, or scratch.
        elements: of each memory, as a map of the symbols and the number of shares.
        symbols: how many of them it takes.
        tied: the number of the operand that each result is written over, or -1; none
            of them if that is empty.
        awaited: tensors after the operands that the function does not take.
    """
    name, body = quote(name), quote(body)
    numbers = [f"%s{n}" for n in range(symbols)]
    first = len(memories) - results
    names = [f"%b{n}" for n in range(first)]
    for place, at in enumerate([*tied] or [-1] * results):
        names.append(f"%b{first + place}" if at < 0 else names[at])
    bindings = [*names[:first], *(f"%a{n}" for n in range(awaited))]
    own = [each for each in names[first:] if each not in bindings]
    indices = [f"{number}: index" for number in numbers]
    bound, made = ([f"{x}: !stream.binding" for x in each] for each in (bindings, own))
    taken = ", ".join([*bound, *indices, *made])
    views = [
        line
        for n, kind in enumerate(memories)
        for line in _view(n, names[n], kind, elements[n], [*numbers, "%shares"])
    ]
    held = [f"%m{n}" for n in range(len(memories))]
    given = ", ".join([*held, *numbers, "%share", "%shares"])
    types = ", ".join([*memories, *["index"] * (symbols + 2)])
    return [
        f"stream.executable private @{name} {{",
        f"  stream.executable.export public @{name} workgroups(%shares: index) "
        "-> (index, index, index) {",
        "    %one = arith.constant 1 : index",
        "    stream.return %shares, %one, %one : index, index, index",
        "  }",
        "  builtin.module {",
        f"    func.func private @{body}({types})",
        f"    func.func @{name}({taken}) {{",
        "      %zero = arith.constant 0 : index",
        "      %share = stream.dispatch.workgroup.id[0] : index",
        "      %shares = stream.dispatch.workgroup.count[0] : index",
        *views,
        f"      func.call @{body}({given}) : ({types}) -> ()",
        "      return",
        "    }",
        "  }",
        "}",
    ]


# IREE's targets whose code is PTX and hsaco, whatever the chip
_DEVICES = {
    "cuda": '#hal.executable.target<"cuda", "cuda-nvptx-fb">',
    "rocm": '#hal.executable.target<"rocm", "rocm-hsaco-fb">',
}


def device_executable(
    name: str,
    backend: str,
    function: str,
    object_path: str,
    writes: Sequence[bool],
    numbers: int,
    threads: int,
    shared_bytes: int,
) -> list[str]:
    """Return lines of an executable that runs a compiled GPU kernel.

    Args:
        name: of the executable.
        backend: of IREE's that it is code for, `cuda` or `rocm`.
        function: of the kernel.
        object_path: where the compiler finds its code.
        writes: whether it writes each of the tensors that it is bound to.
        numbers: how many numbers of 32 bits it takes.
        threads: of a program.
        shared_bytes: of memory that these share.
    """
    # Indirect: recorded once, and told the memory when it is replayed
    is_read, is_written = (
        'storage_buffer, "ReadOnly|Indirect"',
        "storage_buffer, Indirect",
    )
    kinds = [is_written if each else is_read for each in writes]
    bound = ", ".join(f"#hal.pipeline.binding<{kind}>" for kind in kinds)
    layout = f"#hal.pipeline.layout<constants = {numbers}, bindings = [{bound}]>"
    found = f"#hal.executable.object<{{path = {quote(object_path)}}}>"
    objects = f"#hal.executable.objects<{{{_DEVICES[backend]} = [{found}]}}>"
    sizes = ", ".join(f"{size} : index" for size in (threads, 1, 1))
    return [
        f'"hal.executable.source"() <{{objects = {objects}, sym_name = {quote(name)}, '
        'sym_visibility = "private"}> ({',
        f'  "hal.executable.export"() <{{layout = {layout}, ordinal = 0 : index, '
        f'sym_name = {quote(function)}, sym_visibility = "public", '
        f"workgroup_size = [{sizes}], "
        f"workgroup_local_memory = {shared_bytes} : index}}> ({{",
        "  ^bb0(%device: !hal.device, %programs: index):",
        "    %one = arith.constant 1 : index",
        "    hal.return %programs, %one, %one : index, index, index",
        "  }, {}) : () -> ()",
        '  "hal.executable.source_end"() : () -> ()',
        "}) : () -> ()",
    ]


def _view(
    number: int, binding: str, kind: str, elements: str, numbers: list[str]
) -> list[str]:
    """Return lines that make a memref of a binding, sized by an affine map."""
    view = f"%m{number} = stream.binding.subspan {binding}[%zero]"
    if "?" not in kind:
        return [f"      {view} : !stream.binding -> {kind}"]
    given = ", ".join(numbers)
    return [
        f"      %n{number} = affine.apply affine_map<{elements}>()[{given}]",
        f"      {view} : !stream.binding -> {kind}{{%n{number}}}",
    ]


def reader(name: str, leaves: Sequence[tuple[str, Tensor]]) -> list[str]:
    """Return lines of an exported function that returns the leaves of a state.

    Args:
        name: of the function.
        leaves: the global of each, and its type.
    """
    types = [_type(kind) for _, kind in leaves]
    loads = [
        f"  %{i} = util.global.load @{quote(leaf)} : {kind}"
        for i, ((leaf, _), kind) in enumerate(zip(leaves, types, strict=True))
    ]
    values = [f"%{i}" for i in range(len(types))]
    head = f"func.func @{name}() -> ({', '.join(types)}) {{"
    return [head, *loads, f"  {_return(values, types)}", "}"]


def writer(name: str, leaves: Sequence[tuple[str, Tensor]]) -> list[str]:
    """Return lines of an exported function that stores the leaves of a state."""
    pairs = [(leaf, _type(kind)) for leaf, kind in leaves]
    arguments = ", ".join(f"%{i}: {kind}" for i, (_, kind) in enumerate(pairs))
    stores = [
        f"  util.global.store %{i}, @{quote(leaf)} : {kind}"
        for i, (leaf, kind) in enumerate(pairs)
    ]
    return [f"func.func @{name}({arguments}) {{", *stores, "  return", "}"]

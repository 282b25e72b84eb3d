"""What crosses to IREE: the graph functions in upstream dialects, and a frame around.

Only upstream dialects cross, as bytecode. What only IREE knows is written as text:
globals for weights and state, and the exported functions around the graph functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aotc.backend.state_exports import reader_name, writer_name
from aotc.dialects.entries import Entry, strip_program
from aotc.dialects.functions import functions_of
from aotc.dialects.lowering import foreign
from aotc.dialects.parameters import SCOPE
from aotc.dialects.types import Tensor, lowered_type
from aotc.errors import CompileError
from aotc.kernels.lowered import Kernel, kernels_of, strip_kernels
from aotc.mlir import bytecode, func, ir
from aotc.program import Program, StateSpec

_CROSSING = {
    "affine",
    "arith",
    "builtin",
    "cf",
    "func",
    "linalg",
    "llvm",
    "math",
    "memref",
    "scf",
    "tensor",
    "vector",
}


def require_upstream_only(module: Any) -> None:
    """Refuse ops that IREE does not know: one of them crashes its compiler."""
    names: set[str] = set()

    def visit(op: Any) -> Any:  # an error raised here would lose its type
        names.add(op.name)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for name in sorted(names):
        if name.partition(".")[0] not in _CROSSING:
            raise CompileError(
                "not-lowered",
                f"op '{name}' is left in the module that goes to IREE",
                hint="run the pass 'lower-to-linalg' first",
            )


def crossing(program: Program) -> tuple[bytes, str]:
    """The graph functions as bytecode (made private), and IREE's frame around them."""
    with program.module.context, ir.Location.unknown():
        # By way of text: bytecode also tells in which order values came to be used, by
        # which IREE might go, and which no reader of a dump could know. The copy is
        # verified when it is parsed; the printer would verify the original, too.
        text = program.module.operation.get_asm(
            enable_debug_info=True, assume_verified=True
        )
        copy = ir.Module.parse(text)
        strip_program(copy)
        require_upstream_only(copy)
        for function in copy.body.operations:
            if isinstance(function, func.FuncOp) and not function.is_external:
                name = ir.StringAttr(function.attributes["sym_name"]).value
                function.attributes["sym_name"] = ir.StringAttr.get(inner_name(name))
                function.attributes["sym_visibility"] = ir.StringAttr.get("private")
        strip_kernels(copy)
        return bytecode(copy), frame_text(program)


def inner_name(entry: str) -> str:
    """The name of the graph function behind an entry."""
    return f"{entry}.graph"


def frame_text(program: Program) -> str:
    """IREE's side of the module: globals, entries, and access to states.

    The functions behind the entries are declared here and defined by the bytecode; for
    the bodies that only IREE can read it is the other way round.
    """
    mutable = {leaf for state in program.states for leaf in state.leaves}
    types = {
        port.name: _mlir(port.type)
        for entry in program.entries
        for port in entry.arguments
        if port.kind != "input"
    }
    lines = [_global(name, kind, name in mutable) for name, kind in types.items()]
    for entry in program.entries:
        lines += _declaration(entry) + _public_function(entry)
    for state in program.states:
        lines += _reader(state) + _writer(state)
    for function in functions_of(program.module).values():
        if foreign.body_of(function) is not None:
            lines += foreign.definition(function)
    for kernel in kernels_of(program.module):
        lines += _executable(kernel)
    body = "\n".join(f"  {line}" for line in lines)
    return f"module @aotc {{\n{body}\n}}\n"


def _mlir_string(name: str) -> str:
    """A name as MLIR spells it: what is not plain ASCII, byte by byte."""
    plain = (
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\{byte:02X}"
        for byte in name.encode()
    )
    return f'"{"".join(plain)}"'


def _mlir(tensor: Tensor) -> str:
    return str(lowered_type(tensor))


def _global(name: str, kind: str, mutable: bool) -> str:
    access = "private mutable" if mutable else "private"
    initial = f'#flow.parameter.named<"{SCOPE}"::{_mlir_string(name)}>'
    return f"util.global {access} @{_mlir_string(name)} = {initial} : {kind}"


def _declaration(entry: Entry) -> list[str]:
    operands = ", ".join(_mlir(port.type) for port in entry.arguments)
    results = ", ".join(_mlir(port.type) for port in entry.results)
    name = inner_name(entry.name)
    return [f'func.func private @"{name}"({operands}) -> ({results})']


def _public_function(entry: Entry) -> list[str]:
    """The function that callers see: inputs in, outputs out, state in globals."""
    inputs = [
        f"%{i}: {_mlir(port.type)} {{iree.abi.name = {_mlir_string(port.name)}}}"
        for i, port in enumerate(entry.arguments)
        if port.kind == "input"
    ]
    outputs = [
        f"%r{i}" for i, port in enumerate(entry.results) if port.kind == "output"
    ]
    output_types = [_mlir(port.type) for port in entry.ports("output")]
    signature = f"({', '.join(inputs)}) -> ({', '.join(output_types)})"
    lines = [f"func.func @{entry.name}{signature} {{"]
    lines += [
        f"  %{i} = util.global.load @{_mlir_string(port.name)} : {_mlir(port.type)}"
        for i, port in enumerate(entry.arguments)
        if port.kind != "input"
    ]
    operands = ", ".join(f"%{i}" for i in range(len(entry.arguments)))
    operand_types = ", ".join(_mlir(port.type) for port in entry.arguments)
    results = ", ".join(f"%r{i}" for i in range(len(entry.results)))
    result_types = ", ".join(_mlir(port.type) for port in entry.results)
    name = inner_name(entry.name)
    assigned = f"{results} = " if results else ""
    lines.append(
        f'  {assigned}func.call @"{name}"({operands}) : '
        f"({operand_types}) -> ({result_types})"
    )
    lines += [
        f"  util.global.store %r{i}, @{_mlir_string(port.name)} : {_mlir(port.type)}"
        for i, port in enumerate(entry.results)
        if port.kind == "state"
    ]
    return [*lines, f"  {_return(outputs, output_types)}", "}"]


def _return(values: Sequence[str], types: Sequence[str]) -> str:
    if not values:
        return "return"
    return f"return {', '.join(values)} : {', '.join(types)}"


def _executable(kernel: Kernel) -> list[str]:
    """What dispatches a kernel; its function, declared here, comes as bytecode."""
    name = _mlir_string(kernel.name)
    body = _mlir_string(f"{kernel.name}.body")
    symbols = [f"%s{n}" for n in range(kernel.symbols)]
    bindings = [f"%b{n}: !stream.binding" for n in range(len(kernel.memories))]
    first = len(bindings) - kernel.results
    numbers = [f"{symbol}: index" for symbol in symbols]
    taken = ", ".join([*bindings[:first], *numbers, *bindings[first:]])
    views = [
        line
        for n, kind in enumerate(kernel.memories)
        for line in _view(n, kind, kernel.elements[n], [*symbols, "%shares"])
    ]
    memories = [f"%m{n}" for n in range(len(kernel.memories))]
    given = ", ".join([*memories, *symbols, "%share", "%shares"])
    indices = ["index"] * (len(symbols) + 2)
    types = ", ".join([*kernel.memories, *indices])
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


def _view(number: int, kind: str, elements: str, numbers: list[str]) -> list[str]:
    """The memory of a binding; how many elements it has, a map says, of numbers."""
    view = f"%m{number} = stream.binding.subspan %b{number}[%zero]"
    if "?" not in kind:
        return [f"      {view} : !stream.binding -> {kind}"]
    given = ", ".join(numbers)
    return [
        f"      %n{number} = affine.apply affine_map<{elements}>()[{given}]",
        f"      {view} : !stream.binding -> {kind}{{%n{number}}}",
    ]


def _reader(state: StateSpec) -> list[str]:
    types = [_mlir(tensor) for tensor in state.types]
    loads = [
        f"  %{i} = util.global.load @{_mlir_string(leaf)} : {kind}"
        for i, (leaf, kind) in enumerate(zip(state.leaves, types, strict=True))
    ]
    values = [f"%{i}" for i in range(len(types))]
    head = f"func.func @{reader_name(state.name)}() -> ({', '.join(types)}) {{"
    return [head, *loads, f"  {_return(values, types)}", "}"]


def _writer(state: StateSpec) -> list[str]:
    pairs = list(zip(state.leaves, map(_mlir, state.types), strict=True))
    arguments = ", ".join(f"%{i}: {kind}" for i, (_, kind) in enumerate(pairs))
    stores = [
        f"  util.global.store %{i}, @{_mlir_string(leaf)} : {kind}"
        for i, (leaf, kind) in enumerate(pairs)
    ]
    head = f"func.func @{writer_name(state.name)}({arguments}) {{"
    return [head, *stores, "  return", "}"]

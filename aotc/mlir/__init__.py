"""The only import of the MLIR Python bindings.

They come from the `mlir` package where a real one is installed, and from the
`torch-mlir` wheel otherwise (which has nothing to do with torch at run time).
Everything else in aotc takes `ir`, `ext` and the upstream dialects from here. The graph
dialect is loaded into a context by `aotc.dialects.context()`, its one owner.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from aotc.core.installation import install_command
from aotc.errors import SetupError


def _bindings() -> str:
    """Return the name of the package that has the MLIR bindings."""
    for package in ("mlir", "torch_mlir"):
        try:
            import_module(f"{package}.dialects.ext")
        except ModuleNotFoundError:
            continue
        return package
    raise SetupError(
        "missing-extra",
        "the compiler needs the MLIR bindings, which are not installed",
        hint=install_command("compiler"),
    )


PACKAGE = _bindings()

# Scalar ops of which the operands are all that there is to say.
PLAIN_OPS = {
    "arith": "addf addi andi divf divsi divui floordivsi maximumf maxnumf maxsi maxui "
    "minimumf minnumf minsi minui mulf muli negf ori remf remsi remui select shli "
    "shrsi shrui subf subi xori",
    "math": "absf absi ceil cos erf exp expm1 floor fma log log1p powf roundeven rsqrt "
    "sin sqrt tanh trunc",
}


class _ScalarOps:
    """A wrapper of a dialect's bindings whose plain ops are built by faster functions.

    Bodies are made of little else, and the bindings' own functions take three times as
    long: they look up segments of operands, locations and results of each op anew.
    """

    def __init__(self, dialect: str) -> None:
        self._module = import_module(f"{PACKAGE}.dialects.{dialect}")
        for name in PLAIN_OPS[dialect].split():
            setattr(self, name, self._builder(dialect, name))

    def __getattr__(self, name: str) -> object:
        """Return any other name of the dialect's bindings; cached."""
        found = getattr(self._module, name)
        setattr(self, name, found)  # asked for with every op
        return found

    @staticmethod
    def _builder(dialect: str, name: str) -> Callable[..., Value]:
        """Return a function that builds an op of operands and infers its result
        type.
        """
        op = f"{dialect}.{name}"

        def build(*operands: Value, **attributes: ir.Attribute) -> Value:
            made = ir.Operation.create(
                op, operands=operands, attributes=attributes, infer_type=True
            )
            result: Value = made.result
            return result

        build.__name__ = name
        return build


class _Deferred:
    """A stand-in for a module of the bindings, which is imported on first access.

    That of linalg builds its named ops when it is imported, in a sixth of the time that
    all other bindings take together with the graph dialect; tracing needs none of them.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> object:
        """Return a name of the module, which is imported if need be; cached."""
        found = getattr(import_module(self._name), name)
        setattr(self, name, found)  # asked for with every op
        return found


if TYPE_CHECKING:  # the wheel ships no stubs; those beside this file say what aotc uses
    from aotc.mlir import affine, arith, func, ir, linalg, math, scf, tensor
else:
    ir = import_module(f"{PACKAGE}.ir")
    affine = import_module(f"{PACKAGE}.dialects.affine")
    arith = _ScalarOps("arith")
    func = import_module(f"{PACKAGE}.dialects.func")
    linalg = _Deferred(f"{PACKAGE}.dialects.linalg")
    math = _ScalarOps("math")
    scf = import_module(f"{PACKAGE}.dialects.scf")
    tensor = import_module(f"{PACKAGE}.dialects.tensor")
passmanager: Any = import_module(f"{PACKAGE}.passmanager")
ext: Any = import_module(f"{PACKAGE}.dialects.ext")
cf: Any = import_module(f"{PACKAGE}.dialects.cf")

# What annotations name: `dialects/` evaluates them, so they are the classes themselves.
AffineExpr = ir.AffineExpr
AffineMap = ir.AffineMap
Block = ir.Block
ElementType = ir.IntegerType | ir.FloatType
Function = func.FuncOp
Module = ir.Module
Operation = ir._OperationBase  # an op as a class of its own, or as any op
Type = ir.Type
Value = ir.Value


def provide_dialect(name: str, module: ModuleType) -> None:
    """Register the module that the bindings import for the dialect `name`.

    They look for `PACKAGE.dialects.NAME` whenever Python first sees an op. A failed
    import is tried again for the next op, which cost two thirds of the passes' time.
    """
    sys.modules.setdefault(f"{PACKAGE}.dialects.{name}", module)


@cache
def stablehlo() -> ModuleType:
    """Return the bindings of the StableHLO dialect.

    Raises:
        SetupError: the MLIR bindings that are installed have none.
    """
    try:
        return import_module(f"{PACKAGE}._mlir_libs._stablehlo")
    except ModuleNotFoundError:
        raise SetupError(
            "missing-stablehlo",
            f"the MLIR bindings of the package '{PACKAGE}' know no StableHLO",
            hint=f"{install_command('compiler')} brings those of torch-mlir",
        ) from None


def in_generic_form(text: str) -> str:
    """Return the text in MLIR's generic form of a module that only IREE's bindings can
    parse.

    That form can be read without knowing the dialects.
    """
    other: Any = import_module("iree.compiler.ir")
    with other.Context() as context:
        context.allow_unregistered_dialects = True
        module = other.Module.parse(text)
        printed = module.operation.get_asm(
            print_generic_op_form=True, enable_debug_info=True
        )
    return str(printed)


def bytecode(module: Module) -> bytes:
    """Return a module as MLIR bytecode, with locations."""
    file = io.BytesIO()
    module.operation.write_bytecode(file)
    return file.getvalue()


def source_of(location: ir.Location) -> str | None:
    """Return an MLIR location as `file:line (layer/path)`, or None if it is unknown."""
    path: list[str] = []
    while isinstance(location, ir.NameLoc):
        path.append(location.name_str)
        location = location.child_loc
    if not isinstance(location, ir.FileLineColLoc):
        return None
    place = f"{location.filename}:{location.start_line}"
    return f"{place} ({'/'.join(path)})" if path else place

"""The part of a module that some of its names need: a static slice.

Mark Weiser, "Program slicing", 1981; here of whole statements at the top of a module. A
statement belongs to it if it gives a needed name its value, or may change an object
that a needed name stands for (`effects`).
"""

from __future__ import annotations

import ast
import builtins
import symtable
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import ModuleType

from aotc.errors import InputError
from aotc.hybrid_programs.packages.current_values import (
    UNKNOWN,
    attribute,
    identities,
    library,
)
from aotc.hybrid_programs.packages.effects import REGIONS, CodeEffects, ModuleEffects
from aotc.hybrid_programs.python.names import stores

# what each module has, of the interpreter
_OF_MODULES = {*dir(builtins), "__name__", "__doc__", "__package__", "__spec__"}


class ProgramSlice:
    """The statements of a module that the names of some statements depend on.

    Args:
        body: the module's statements.
        scope: what its names stand for now.
        taken: statements of the slice to begin with.
        stays: whether a statement cannot be executed elsewhere.

    Raises:
        InputError: `bad-hybrid`: one that is needed cannot, or it cannot be told what
            is needed.
    """

    def __init__(
        self,
        body: Sequence[ast.stmt],
        scope: Mapping[str, object],
        taken: Iterable[ast.stmt],
        stays: Callable[[ast.stmt], bool],
    ) -> None:
        self._body, self._scope, self._stays = body, scope, stays
        self.effects = ModuleEffects(body, scope)
        self._provided = {id(each): self._provided_by(each) for each in body}
        self._taken: set[int] = {id(each) for each in taken}
        self.needed = self._reads(taken)
        while found := self._next():
            for each in found:
                if stays(each):
                    self._refuse(each)
            self._taken |= {id(each) for each in found}
            self.needed |= self._reads(found)
        self._require_provided()

    @property
    def statements(self) -> list[ast.stmt]:
        """The statements of the slice, in the order of the module."""
        return [each for each in self._body if id(each) in self._taken]

    def compared(self, function: str) -> list[str]:
        """Return the names whose values a module of the slice must share with the
        original.

        Not those that calls change, and of modules the values that are read.

        Args:
            function: that is called.
        """
        called = self.effects.summary(function)
        changed = called.changes | called.stores
        reached = identities(called.objects)
        names = [
            name
            for name in sorted((self.needed - _OF_MODULES) & self._scope.keys())
            if not self.effects.shares(name, changed)
            and not identities([self._scope[name]]) & reached
        ]
        return [*names, *self._values_of_modules(reached)]

    def _values_of_modules(self, changed: set[int]) -> list[str]:
        """Return the dotted names of other modules' data that the slice reads, except
        of Python's own modules and of objects in `changed`.
        """
        found = set[str]()
        for dotted in chains(self.statements):
            owner = resolve(dotted.rpartition(".")[0], self._scope)
            value = resolve(dotted, self._scope)
            if isinstance(owner, ModuleType) and not callable(value):
                is_of_python = library(owner) in sys.stdlib_module_names
                is_changed = bool(identities([value]) & changed)
                found |= set() if is_of_python or is_changed else {dotted}
        return sorted(found)

    # ---- taking

    def _next(self) -> list[ast.stmt]:
        """Return the statements that what is in the slice depends on directly."""
        left = [each for each in self._body if id(each) not in self._taken]
        used = self._used_objects()
        return [each for each in left if self._is_needed(each, used)]

    def _is_needed(self, node: ast.stmt, used: set[int]) -> bool:
        """Return whether a statement defines a needed name, or may change its
        object.
        """
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            return True
        if self._provided[id(node)] & self.needed:
            return True
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            return False
        return self._changes(node, used)

    def _changes(self, node: ast.stmt, used: set[int]) -> bool:
        """Return whether a statement may change an object that the slice needs."""
        found = self.effects.of(node)
        if found.is_unknown or self._is_setting(node):
            return True
        objects = [*found.objects, *found.given_objects]
        return bool(self._changed_names(found) or identities(objects) & used)

    def _changed_names(self, effects: CodeEffects) -> set[str]:
        """Return the needed names whose objects the effects may change."""
        changed = effects.changes | effects.given
        if not changed:
            return set()
        return {
            name
            for name in self.needed
            if not self.effects.is_value(name) and self.effects.shares(name, changed)
        }

    def _used_objects(self) -> set[int]:
        """Return the ids of the objects that the slice reads, as far as they are
        known.
        """
        values = [self._scope[name] for name in self.needed & self._scope.keys()]
        taken = self.statements
        values += [resolve(dotted, self._scope) for dotted in chains(taken)]
        return identities(each for each in values if each is not UNKNOWN)

    def _is_setting(self, node: ast.stmt) -> bool:
        """Return whether a statement is a bare call into a library that the slice
        uses.
        """
        match node:
            case ast.Expr(ast.Call(func=function)):
                known = resolve(ast.unparse(function), self._scope)
                if known is UNKNOWN or isinstance(function, ast.Call):
                    return False
                of = library(known)
                return of not in ("builtins", "aotc") and of in self._libraries()
        return False

    def _libraries(self) -> set[str]:
        """Return the packages whose modules or functions the slice refers to by
        name.
        """
        values = (self._scope[name] for name in self.needed & self._scope.keys())
        return {
            library(each)
            for each in values
            if isinstance(each, ModuleType) or callable(each)
        } - {str(self._scope.get("__name__")).partition(".")[0]}

    def _provided_by(self, node: ast.stmt) -> set[str]:
        """Return the module's names that a statement assigns."""
        found = stores(node) | self.effects.of(node).stores
        if "*" in found:
            assert isinstance(node, ast.ImportFrom)
            module = sys.modules.get(str(node.module))
            public = [n for n in dir(module) if not n.startswith("_")]
            found |= {*getattr(module, "__all__", public)}
        return found

    def _reads(self, nodes: Iterable[ast.stmt]) -> set[str]:
        """Return the module's names that statements read."""
        return set().union(*map(global_reads, nodes)) - {REGIONS}

    # ---- refusing

    def _refuse(self, node: ast.stmt) -> None:
        """Raise the error for a needed statement that uses aotc's compiler."""
        found = self.effects.of(node)
        used = (self._provided[id(node)] & self.needed) or self._changed_names(found)
        of = f"'{min(used)}', which" if used else "what"
        first = ast.unparse(node).partition("\n")[0]
        does = "belongs to" if self._provided[id(node)] & used else "may change"
        raise InputError(
            "bad-hybrid",
            f"line {node.lineno} {does} {of} Python needs on a device, "
            f"and uses functions of aotc, which devices do not have: {first}",
            hint="define what Python needs in a module of its own, and import it; "
            "`boundaries` lists what is Python",
        )

    def _require_provided(self) -> None:
        """Refuse needed names that no statement of the slice assigns."""
        taken = self.statements
        provided = set().union(*(self._provided[id(each)] for each in taken))
        is_unknown = any(self.effects.of(each).is_unknown for each in taken)
        for name in sorted(self.needed - provided - _OF_MODULES):
            if name in ("__file__", "__path__"):
                what = f"Python reads '{name}', which is another one in the package"
            elif name in self._scope and not is_unknown:
                what = (
                    f"no statement of the module gives '{name}' its value, so that the "
                    "package could not have it"
                )
            else:
                continue
            reading = (x.lineno for x in taken if name in global_reads(x))
            raise InputError(
                "bad-hybrid",
                f"line {min(reading, default=0)}: {what}",
                hint="give the function the value as an argument, or define it in a "
                "module of its own, and import it",
            )


# ---- names


def global_reads(node: ast.stmt) -> set[str]:
    """Return the module's names that a statement, or a function it defines, reads.

    By the compiler's own rules of scopes.
    """
    bare = ast.Module([_without_star(node)], [])
    table = symtable.symtable(ast.unparse(bare), "module", "exec")
    changed = {
        each.target.id
        for each in ast.walk(node)
        if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name)
    }
    changed &= {x.get_name() for x in table.get_symbols() if x.is_assigned()}
    return changed | _reads_of(table, True) | _names_in_texts(node)


def _without_star(node: ast.stmt) -> ast.stmt:
    """Return `pass` for `from … import *`; other statements unchanged."""
    is_star = isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
    return ast.Pass() if is_star else node


def _reads_of(table: symtable.SymbolTable, is_top: bool) -> set[str]:
    """Return the global names that a symbol table and its children refer to."""
    found = {
        each.get_name()
        for each in table.get_symbols()
        if (is_top and each.is_referenced()) or (not is_top and each.is_global())
    }
    return found.union(*(_reads_of(each, False) for each in table.get_children()))


def _names_in_texts(node: ast.stmt) -> set[str]:
    """Return names in string annotations of classes, which dataclasses read."""
    found = set[str]()
    for each in ast.walk(node):
        match each:
            case ast.AnnAssign(annotation=ast.Constant(value=str(text))):
                names = (x.id for x in _nodes_of_text(text) if isinstance(x, ast.Name))
                found |= {*names}
    return found


def _nodes_of_text(text: str) -> Iterator[ast.AST]:
    """Yield the nodes of a text as an expression; none if it cannot be parsed."""
    try:
        return ast.walk(ast.parse(text, mode="eval"))
    except SyntaxError:
        return iter(())


def chains(nodes: Iterable[ast.stmt]) -> set[str]:
    """Return the dotted names that statements, or functions they define, read."""
    return {
        ast.unparse(each)
        for node in nodes
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and _is_dotted(each)
    }


def _is_dotted(node: ast.expr) -> bool:
    """Return whether an expression is a name followed by attributes only."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def resolve(dotted: str, scope: Mapping[str, object]) -> object:
    """Return the value of a dotted name in a scope; UNKNOWN if finding it would run
    code.
    """
    first, *rest = dotted.split(".")
    value: object = scope.get(first, getattr(builtins, first, UNKNOWN))
    for name in rest:
        value = attribute(value, name)
    return value

"""Names that statements read and store, and liveness of variables around them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class _ScopeNames(ast.NodeVisitor):
    """A visitor that collects the names that one scope reads and stores."""

    def __init__(self) -> None:
        self.reads: set[str] = set()
        self.stores: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        """Record a name as read or stored; a deleted one as both."""
        if not isinstance(node.ctx, ast.Store):  # what is deleted must be there
            self.reads.add(node.id)
        if not isinstance(node.ctx, ast.Load):
            self.stores.add(node.id)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Record the target of `x += y` as read, too."""
        if isinstance(node.target, ast.Name):
            self.reads.add(node.target.id)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Record a function's name as stored, and the outer names that it reads."""
        self.stores.add(node.name)
        for each in [*node.decorator_list, *_defaults(node.args)]:
            self.visit(each)
        self._visit_inner(node.body, _parameters(node.args))

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Record the outer names that a lambda reads."""
        for each in _defaults(node.args):
            self.visit(each)
        self._visit_inner([node.body], _parameters(node.args))

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Record a class's name as stored, and the outer names that it reads."""
        self.stores.add(node.name)
        for each in [*node.decorator_list, *node.bases, *node.keywords]:
            self.visit(each)
        self._visit_inner(node.body, set())

    def _visit_comprehension(self, node: Comprehension) -> None:
        """Record the outer names that a comprehension reads, and those that `:=`
        stores.
        """
        first, *_ = node.generators
        self.visit(first.iter)  # evaluated outside
        inner = _ScopeNames()
        inner.generic_visit(_with_constant_source(node))
        walrus = {
            each.target.id
            for each in ast.walk(node)
            if isinstance(each, ast.NamedExpr) and isinstance(each.target, ast.Name)
        }
        self.reads |= inner.reads - (inner.stores - walrus)
        self.stores |= walrus

    visit_ListComp = visit_SetComp = visit_DictComp = _visit_comprehension
    visit_GeneratorExp = _visit_comprehension

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        """Record the name that an exception is bound to as stored."""
        if node.name:
            self.stores.add(node.name)
        self.generic_visit(node)

    def visit_alias(self, node: ast.alias) -> None:
        """Record the name that an import binds as stored."""
        self.stores.add(node.asname or node.name.partition(".")[0])

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        """Record the name that a pattern binds as stored."""
        if node.name:
            self.stores.add(node.name)
        self.generic_visit(node)

    visit_MatchStar = visit_MatchAs

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        """Record the name of a mapping pattern's rest as stored."""
        if node.rest:
            self.stores.add(node.rest)
        self.generic_visit(node)

    def _visit_inner(self, body: Sequence[ast.AST], bound: set[str]) -> None:
        """Record as read what an inner scope reads and does not bind itself."""
        inner = _ScopeNames()
        for each in body:
            inner.visit(each)
        self.reads |= inner.reads - inner.stores - bound


def _with_constant_source(node: Comprehension) -> Comprehension:
    """Return a comprehension with None as its first iterable."""
    first, *rest = node.generators
    empty = ast.comprehension(
        first.target, ast.Constant(None), first.ifs, first.is_async
    )
    kept = {name: getattr(node, name) for name in node._fields}
    return type(node)(**{**kept, "generators": [empty, *rest]})


def _defaults(arguments: ast.arguments) -> list[ast.expr]:
    """Return the expressions of the parameters' default values."""
    return [*arguments.defaults, *(each for each in arguments.kw_defaults if each)]


def _parameters(arguments: ast.arguments) -> set[str]:
    """Return the names of all parameters."""
    return {each.arg for each in ast.walk(arguments) if isinstance(each, ast.arg)}


def reads(*nodes: ast.AST) -> set[str]:
    """Return the names that are read anywhere in nodes."""
    return _names_of(nodes).reads


def stores(*nodes: ast.AST) -> set[str]:
    """Return the names that may be assigned or deleted in nodes."""
    return _names_of(nodes).stores


def _names_of(nodes: Iterable[ast.AST]) -> _ScopeNames:
    """Return the visitor with all names that nodes read and store."""
    found = _ScopeNames()
    for node in nodes:
        found.visit(node)
    return found


def assigned_names(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that statements leave assigned on every path."""
    found: set[str] = set()
    for each in body:
        found = (found - deletes(each)) | _assigned_by(each)
    return found


def _assigned_by(node: ast.stmt) -> set[str]:
    """Return the names that a statement assigns on every path."""
    match node:
        case ast.Assign():
            return stores(*node.targets) | _named_in(node.value)
        case ast.AnnAssign() | ast.AugAssign():
            return stores(node.target) if node.value else set()
        case ast.Expr():
            return _named_in(node.value)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.Import() | ast.ImportFrom():
            return stores(node)
        case ast.If():
            arms = [each for each in (node.body, node.orelse) if not _leaves(each)]
            found = [assigned_names(each) for each in arms]
            return set.intersection(*found) if found else set()
        case _:
            return set()


def _named_in(node: ast.expr) -> set[str]:
    """Return the names that `:=` assigns in an expression whenever it is evaluated."""
    if isinstance(node, (ast.IfExp, ast.BoolOp, ast.Lambda, *_COMPREHENSIONS)):
        return set()
    own = stores(node.target) if isinstance(node, ast.NamedExpr) else set()
    parts = [x for x in ast.iter_child_nodes(node) if isinstance(x, ast.expr)]
    return own.union(*map(_named_in, parts))


def _leaves(body: Sequence[ast.stmt]) -> bool:
    """Return whether a body ends in a jump: return, raise, break or continue."""
    last = body[-1] if body else None
    return isinstance(last, (ast.Return, ast.Raise, ast.Break, ast.Continue))


def deletes(*nodes: ast.AST) -> set[str]:
    """Return the names that may be deleted in nodes."""
    parts = [part for node in nodes for part in ast.walk(node)]
    handlers = (each for each in parts if isinstance(each, ast.ExceptHandler))
    named = {each.name for each in handlers if each.name}  # at the end of the block
    return named | stores(*(x for x in parts if isinstance(x, ast.Delete)))


def needed_names(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that statements may read before they assign them."""
    found: set[str] = set()
    for number, each in enumerate(body):
        found |= _needed_by(each) - assigned_names(body[:number])
    return found


def _needed_by(node: ast.stmt) -> set[str]:
    """Return the names that a statement may read before it assigns them."""
    match node:
        case ast.If():
            return (
                reads(node.test) | needed_names(node.body) | needed_names(node.orelse)
            )
        case ast.While():
            return (
                reads(node.test) | needed_names(node.body) | needed_names(node.orelse)
            )
        case ast.For():
            inner = needed_names(node.body) - stores(node.target)
            return reads(node.iter, node.target) | inner | needed_names(node.orelse)
        case _:
            return reads(node)


def live_before(body: Sequence[ast.stmt], after: set[str]) -> list[set[str]]:
    """Return the variables live before each statement, and after the last."""
    found = [after]
    for each in reversed(body):
        found.append((found[-1] - assigned_names([each])) | _needed_by(each))
    return found[::-1]


def late_bound(body: Sequence[ast.stmt], parameters: set[str]) -> set[str]:
    """Return the variables that inner functions capture and that may be assigned again.

    A function, a lambda or a generator expression reads a variable of the function
    around it when it runs. Only of one that has a single value, and has it before, is
    a copy as good.

    Args:
        body: of the function around them.
        parameters: names that have a value before.
    """
    counts = Counter({name: 1 for name in parameters})
    unsafe, captured = set[str](), set[str]()
    _note_bindings(body, False, _Bindings(counts, unsafe, captured))
    return captured & (unsafe | {name for name, n in counts.items() if n > 1})


@dataclass
class _Bindings:
    """Binding counts of variables, and those captured or bound where a copy is
    unsafe.
    """

    counts: Counter[str]
    unsafe: set[str]
    captured: set[str]


def _note_bindings(body: Sequence[ast.AST], in_loop: bool, found: _Bindings) -> None:
    """Add the bindings and captures of statements, and of their blocks, to `found`."""
    for node in body:
        inner = [*getattr(node, "body", []), *getattr(node, "orelse", [])]
        is_loop = isinstance(node, (ast.For, ast.While))
        if is_loop or isinstance(node, (ast.If, ast.With, ast.Try)):
            own = [
                part
                for part in ast.iter_child_nodes(node)
                if not isinstance(part, (ast.stmt, ast.ExceptHandler))
            ]
            _note_names(own, in_loop or is_loop, found)
            for handler in getattr(node, "handlers", []):
                inner += [handler]
            inner += getattr(node, "finalbody", [])
            _note_bindings(inner, in_loop or is_loop, found)
        else:
            _note_names([node], in_loop, found)


def captures(*nodes: ast.AST) -> set[str]:
    """Return the names that functions, lambdas and generators in nodes read when they
    run.
    """
    inside = [x for node in nodes for x in ast.walk(node) if isinstance(x, _CAPTURING)]
    return set[str]().union(*map(reads, inside))


def _note_names(nodes: Sequence[ast.AST], in_loop: bool, found: _Bindings) -> None:
    """Add the names that nodes bind and capture to `found`."""
    found.captured |= captures(*nodes)
    stored = stores(*nodes)
    found.counts.update(stored)
    if in_loop:
        found.unsafe |= stored
    found.unsafe |= stored & found.captured


_CAPTURING = (*_SCOPES, ast.ClassDef, ast.GeneratorExp)

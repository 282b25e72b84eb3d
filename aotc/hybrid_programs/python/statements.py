"""Statements that may be compiled, and the operations that one consists of."""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Sequence
from copy import deepcopy

from aotc.hybrid_programs.python.syntax import with_fields

_EFFECTS = (ast.Yield, ast.YieldFrom, ast.Await)
_WORK = (
    ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript, ast.Attribute,
    ast.If, ast.For, ast.While,
)  # fmt: skip


def is_candidate(node: ast.stmt) -> bool:
    """Return whether a statement may be compiled: no jump, yield or await leaves it."""
    match node:
        case ast.Assign():
            return all(map(_is_target, node.targets)) and _has_no_yield(node)
        case ast.AugAssign() | ast.AnnAssign():
            return (
                node.value is not None
                and _is_target(node.target)
                and _has_no_yield(node)
            )
        case ast.Expr() | ast.Assert():
            return _has_no_yield(node)
        case ast.If():
            return _has_no_yield(node.test) and all(map(is_candidate, _inner(node)))
        case ast.For() | ast.While():
            inner = [x for x in _inner(node) if not _is_jump(x)]
            return _has_no_yield(*ast.iter_child_nodes(_head(node))) and all(
                map(is_candidate, inner)
            )
        case ast.Pass():
            return True
        case _:
            return False


def computes(body: Sequence[ast.stmt]) -> bool:
    """Return whether statements contain an operation worth compiling, such as a
    call.
    """
    return any(isinstance(part, _WORK) for each in body for part in ast.walk(each))


def _has_no_yield(*nodes: ast.AST) -> bool:
    """Return whether nodes contain no yield or await."""
    return not any(isinstance(part, _EFFECTS) for n in nodes for part in ast.walk(n))


def _inner(node: ast.If | ast.For | ast.While) -> list[ast.stmt]:
    """Return the statements in the blocks of a statement."""
    return [*node.body, *node.orelse]


def _head(node: ast.For | ast.While) -> ast.AST:
    """Return the test or iterable of a loop as an expression statement."""
    return ast.Expr(node.test if isinstance(node, ast.While) else node.iter)


def _is_jump(node: ast.stmt) -> bool:
    """Return whether a statement is `break` or `continue`."""
    return isinstance(node, (ast.Break, ast.Continue))


def _is_name(node: ast.expr) -> bool:
    """Return whether a target is a name, or a tuple or list of names."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return all(map(_is_name, node.elts))
    return isinstance(node, ast.Name)


def _is_target(node: ast.expr) -> bool:
    """Return whether a target is names, a subscript or an attribute."""
    return _is_name(node) or isinstance(node, (ast.Subscript, ast.Attribute))


# the functions of `aotc.runtime.in_place`, in Python's parts
AUGMENTED = "_aotc_augmented"
AUGMENTED_PART, AUGMENTED_ATTRIBUTE = (
    "_aotc_augmented_part",
    "_aotc_augmented_attribute",
)

_SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.MatMult: "@", ast.Div: "/",
    ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.LShift: "<<",
    ast.RShift: ">>", ast.BitAnd: "&", ast.BitXor: "^", ast.BitOr: "|",
}  # fmt: skip


class _Augmenting(ast.NodeTransformer):
    """A transformer of `x += y` to `x = _aotc_augmented("+", x, y)`."""

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """Replace an augmented assignment by a call; one to slices stays."""
        self.generic_visit(node)
        sign = ast.Constant(_SIGNS[type(node.op)])
        made: ast.stmt
        match node.target:
            case ast.Name(id=name):
                read = ast.Name(name, ast.Load())
                value = _call(AUGMENTED, sign, read, node.value)
                made = ast.Assign([node.target], value)
            case ast.Subscript(value=owner, slice=index) if not _has_slices(index):
                store = _call(AUGMENTED_PART, sign, owner, index)
                made = ast.Expr(ast.Call(store, [node.value], []))
            case ast.Attribute(value=owner, attr=name):
                store = _call(AUGMENTED_ATTRIBUTE, sign, owner, ast.Constant(name))
                made = ast.Expr(ast.Call(store, [node.value], []))
            case _:
                return node
        return ast.fix_missing_locations(ast.copy_location(made, node))


def _call(function: str, *arguments: ast.expr) -> ast.expr:
    """Return a call expression of a function by its name."""
    return ast.Call(ast.Name(function, ast.Load()), [*arguments], [])


def _has_slices(index: ast.expr) -> bool:
    """Return whether an index has a slice in it."""
    return any(isinstance(part, ast.Slice) for part in ast.walk(index))


def _may_change(node: ast.expr) -> bool:
    """Return whether an expression has a call or yield, which may change other
    values.
    """
    return any(isinstance(part, (ast.Call, *_EFFECTS)) for part in ast.walk(node))


def without_changes_of_constants(node: ast.stmt) -> ast.stmt:
    """Return a statement with `x += y` rewritten to copy `x` if it is a read-only
    array.
    """
    made: ast.stmt = _Augmenting().visit(deepcopy(node))
    return made


def operations(
    node: ast.stmt,
    fresh: Callable[[], str],
    variables: Container[str],
    is_module: Callable[[str], bool],
) -> tuple[list[ast.stmt], ast.stmt] | None:
    """Split the operations inside a statement into assignments; return these and the
    rest, or None where nothing is split.

    They come in the order in which Python evaluates them, reads of what is no variable
    of the function included. What Python may not evaluate at all (after `and`, in a
    comprehension) is one operation. This is A-normal form (Flanagan et al., "The
    essence of compiling with continuations", 1993).

    Args:
        node: a candidate.
        fresh: makes a name.
        variables: names of the function's own variables, which no call changes.
        is_module: whether a name is one of a module, whose functions stay.

    Returns:
        None where there is nothing to take out, or the order would be another one.
    """
    if any(isinstance(part, ast.NamedExpr) for part in ast.walk(node)):
        return None
    taken: list[ast.stmt] = []
    splitter = _Splitter(taken, fresh, variables, is_module)
    match node:
        case ast.If():
            rest: ast.stmt = with_fields(node, test=splitter.name_of(node.test))
        case ast.For():
            rest = with_fields(node, iter=splitter.name_of(node.iter))
        case ast.While(orelse=[]) if not isinstance(node.test, ast.Constant):
            return [], _with_test_inside(node, fresh())
        case ast.AugAssign(target=ast.Attribute() | ast.Subscript()):
            return None  # it reads the target first
        case ast.Assign(targets=targets) if not all(map(_is_name, targets)):
            rest = with_fields(node, value=splitter.name_of(node.value))
        case ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Expr():
            if node.value is None:  # a variable is only declared
                return None
            rest = with_fields(node, value=splitter.without_operands(node.value))
        case _:
            return None
    return (taken, rest) if taken else None


def _with_test_inside(node: ast.While, name: str) -> ast.While:
    """Rewrite `while test: …` as `while True: name = test; if not name: break; …`."""
    test = ast.Assign([ast.Name(name, ast.Store())], node.test)
    leave = ast.If(
        ast.UnaryOp(ast.Not(), ast.Name(name, ast.Load())), [ast.Break()], []
    )
    for part in (*ast.walk(ast.Module([leave], [])), test, test.targets[0]):
        ast.copy_location(part, node.test)
    found: ast.While = with_fields(
        node,
        test=ast.copy_location(ast.Constant(True), node),
        body=[test, leave, *node.body],
    )
    return found


class _Splitter:
    """Moves the operations in an expression into assignments before it.

    Args:
        taken: where they go, as statements.
        fresh: makes a name.
        variables: names of the function's own variables.
        is_module: whether a name is one of a module.
    """

    def __init__(
        self,
        taken: list[ast.stmt],
        fresh: Callable[[], str],
        variables: Container[str],
        is_module: Callable[[str], bool],
    ) -> None:
        self._taken, self._fresh = taken, fresh
        self._variables, self._is_module = variables, is_module

    def name_of(self, node: ast.expr) -> ast.expr:
        """Assign an expression to a new name; return the name, or the expression if it
        is fixed.
        """
        node = self.without_operands(node)
        if self._is_fixed(node):
            return node
        name = self._fresh()
        target = ast.copy_location(ast.Name(name, ast.Store()), node)
        self._taken.append(ast.copy_location(ast.Assign([target], node), node))
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def _is_fixed(self, node: ast.expr | None) -> bool:
        """Return whether an expression has no effect, and the same value if evaluated
        later.
        """
        match node:
            case None | ast.Constant():
                return True
            case ast.Lambda(args=ast.arguments(defaults=[], kw_defaults=[])):
                return True
            case ast.Name(id=name):
                return name in self._variables
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return all(map(self._is_fixed, parts))
            case ast.Dict(keys=keys, values=values):
                return all(map(self._is_fixed, [*keys, *values])) and None not in keys
            case _:
                return False

    def without_operands(self, node: ast.expr) -> ast.expr:
        """Return an expression with its operands moved into assignments."""
        match node:
            case ast.Call():
                return self._call(node)
            case ast.BinOp():
                left = self.name_of(node.left)
                return with_fields(node, left=left, right=self.name_of(node.right))
            case ast.UnaryOp():
                return with_fields(node, operand=self.name_of(node.operand))
            case ast.Compare(comparators=[right]):
                left = self.name_of(node.left)
                return with_fields(node, left=left, comparators=[self.name_of(right)])
            case ast.Subscript():
                value = self.name_of(node.value)
                return with_fields(node, value=value, slice=self._index(node.slice))
            case ast.Attribute() if not _is_dotted(node):
                return with_fields(node, value=self.name_of(node.value))
            case ast.Tuple() | ast.List() if not _has_stars(node.elts):
                return with_fields(node, elts=[self.name_of(x) for x in node.elts])
            case ast.Dict() if None not in node.keys:
                rows = [
                    (self.name_of(key), self.name_of(value))
                    for key, value in zip(node.keys, node.values, strict=True)
                    if key is not None
                ]
                keys, values = [key for key, _ in rows], [value for _, value in rows]
                return with_fields(node, keys=keys, values=values)
            case _:
                return node

    def _call(self, node: ast.Call) -> ast.expr:
        """Return a call with its function and arguments moved into assignments."""
        if _has_stars(node.args) or any(each.arg is None for each in node.keywords):
            return node  # which are gone through between other arguments
        function = node.func
        if isinstance(function, ast.Attribute) and not _is_dotted(function):
            function = with_fields(function, value=self.name_of(function.value))
        elif not _is_dotted(function) or self._is_looked_up(node):
            function = self.name_of(function)
        arguments = [self.name_of(each) for each in node.args]
        keywords = [
            with_fields(each, value=self.name_of(each.value)) for each in node.keywords
        ]
        found: ast.expr = with_fields(
            node, func=function, args=arguments, keywords=keywords
        )
        return found

    def _is_looked_up(self, node: ast.Call) -> bool:
        """Return whether a call must look `a.b` up before arguments that may change
        it.
        """
        root: ast.expr = node.func
        while isinstance(root, ast.Attribute):
            root = root.value
        assert isinstance(root, ast.Name)
        is_local = root.id in self._variables
        if is_local and isinstance(node.func, ast.Name):
            return False
        arguments = [*node.args, *(each.value for each in node.keywords)]
        return not self._is_module(root.id) and any(map(_may_change, arguments))

    def _index(self, node: ast.expr) -> ast.expr:
        """Return an index with its parts moved into assignments."""
        if isinstance(node, ast.Tuple) and not _has_stars(node.elts):
            return with_fields(node, elts=[self._index(each) for each in node.elts])
        if isinstance(node, ast.Slice):
            parts = {
                field: self.name_of(part)
                for field in ("lower", "upper", "step")
                if (part := getattr(node, field)) is not None
            }
            return with_fields(node, **parts)
        return self.name_of(node)


def _has_stars(nodes: Sequence[ast.expr]) -> bool:
    """Return whether one of the expressions is starred."""
    return any(isinstance(each, ast.Starred) for each in nodes)


def _is_dotted(node: ast.AST) -> bool:
    """Return whether an expression is a name, perhaps with attributes: `np.linalg`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)

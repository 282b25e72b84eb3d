"""Effects of a module's statements on its objects, from their source.

Static, and with the values of now to know what is called. What is not known is taken to
change all that it is given. Two names share objects if one got its value from the
other, or if that is so of what they stand for now.
"""

from __future__ import annotations

import ast
import builtins
import functools
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from aotc.hybrid_programs.packages.current_values import (
    UNKNOWN,
    attribute,
    computes,
    is_container,
    is_immutable,
    library,
)
from aotc.hybrid_programs.python.breaks import is_own
from aotc.hybrid_programs.python.names import stores

REGIONS = "_aotc"  # the name that compiled regions are called by
# functions that can give any name a value
_UNKNOWN_EFFECTS = ("exec", "eval", "globals", "locals", "__import__")
# methods of containers and arrays that leave them as they are
_READING = frozenset({
    "all", "any", "argmax", "argmin", "argsort", "astype", "conj", "copy", "count",
    "cumprod", "cumsum", "decode", "diagonal", "difference", "dot", "encode",
    "endswith", "find", "flatten", "format", "get", "index", "intersection",
    "isdisjoint", "issubset", "issuperset", "item", "items", "join", "keys", "lower",
    "max", "mean", "min", "nonzero", "prod", "ravel", "repeat", "replace", "reshape",
    "round", "rpartition", "rsplit", "searchsorted", "split", "squeeze", "startswith",
    "std", "strip", "sum", "swapaxes", "symmetric_difference", "take", "tobytes",
    "tolist", "trace", "transpose", "union", "upper", "values", "var", "view",
})  # fmt: skip
_FRESH = frozenset({
    "all", "any", "argmax", "argmin", "argsort", "astype", "cumprod", "cumsum",
    "flatten", "item", "mean", "nonzero", "prod", "round", "searchsorted", "std", "sum",
    "tobytes", "trace", "var",
})  # fmt: skip
_SCALAR = (len, int, float, str, bool, id, hash)  # results that hold no object
_FRESH_OPERATORS = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult)

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass
class CodeEffects:
    """The possible effects of executing code on a module's names and objects.

    Args:
        stores: names of the module that get values in functions.
        changes: names of the module whose objects may change.
        given: names whose objects are given to functions that might change them.
        objects: values of now that may change.
        given_objects: values of now that are given to such functions.
        parameters: of the function that it is, whose objects may change.
        is_unknown: whether any name may get a value.
    """

    stores: set[str] = field(default_factory=set)
    changes: set[str] = field(default_factory=set)
    given: set[str] = field(default_factory=set)
    objects: list[object] = field(default_factory=list)
    given_objects: list[object] = field(default_factory=list)
    parameters: set[str] = field(default_factory=set)
    is_unknown: bool = False

    def add(self, other: CodeEffects) -> None:
        """Merge a called function's effects on the module into these."""
        self.stores |= other.stores
        self.changes |= other.changes
        self.given |= other.given
        self.objects += other.objects
        self.given_objects += other.given_objects
        self.is_unknown |= other.is_unknown


class ModuleEffects:
    """The possible effects of each statement of a module, by static analysis.

    Args:
        body: its statements.
        scope: what its names stand for now.
    """

    def __init__(self, body: Sequence[ast.stmt], scope: Mapping[str, object]) -> None:
        self.scope = scope
        self.functions: dict[str, list[Function]] = {}
        self._summaries: dict[str, CodeEffects] = {}
        self.aliases: dict[str, set[str]] = {}
        self._stored_once = _names_stored_once(body)
        for each in body:
            self._register(each, "")
        for each in body:
            self._effects_of(each)
        self._summaries.clear()  # they did not have all aliases
        self._of = {id(each): self._effects_of(each) for each in body}

    def of(self, node: ast.stmt) -> CodeEffects:
        """Return the effects of executing one of the module's statements."""
        return self._of[id(node)]

    def shares(self, name: str, others: set[str]) -> bool:
        """Return whether a name may alias, or hold, an object of other names."""
        mine = closure({name}, self.aliases)
        return bool(mine & closure(others, self.aliases))

    def is_value(self, name: str) -> bool:
        """Return whether a name is assigned once and refers to an immutable value."""
        value = self.scope.get(name, UNKNOWN)
        return name in self._stored_once and is_immutable(value)

    # ---- functions

    def _register(self, node: ast.AST, prefix: str) -> None:
        """Record the functions that a statement defines, by name; methods begin with a
        dot.
        """
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.functions.setdefault(prefix + node.name, []).append(node)
                inner = [x for x in ast.walk(node) if isinstance(x, Function)]
                self.functions.setdefault(_key_of_nested(node.name), []).extend(
                    inner[1:]
                )
            case ast.ClassDef():
                for each in node.body:
                    self._register(each, ".")
                made = ("__init__", "__new__", "__post_init__", "__call__")
                methods = [x for x in node.body if isinstance(x, ast.FunctionDef)]
                methods = [x for x in methods if x.name in made]
                self.functions.setdefault(node.name, []).extend(methods)
                bases = [x.id for x in node.bases if isinstance(x, ast.Name)]
                for base in bases:
                    inherited = self.functions.get(base, [])
                    self.functions[node.name].extend(inherited)
            case ast.Assign(targets=[ast.Name(name)], value=ast.Lambda() as value):
                self.functions.setdefault(prefix + name, []).append(value)
            case ast.stmt() | ast.ExceptHandler() | ast.match_case():
                for part in ast.iter_child_nodes(node):
                    self._register(part, prefix)

    def summary(self, name: str) -> CodeEffects:
        """Return the effects of calling a function of the module, with those of its
        callees.
        """
        if name not in self._summaries:
            nodes = self.functions.get(name, [])
            self._summaries[name] = found = CodeEffects()
            for node in nodes:  # one that calls itself is taken to change all
                found.parameters |= {*parameters(node)}
            total = CodeEffects()
            for node in nodes:
                own, called = self._own_effects(node)
                total.add(own)
                total.parameters |= own.parameters
                for other in closure(called, self.aliases) & self.functions.keys():
                    total.add(self.summary(other))
            self._summaries[name] = total
        return self._summaries[name]

    def _own_effects(self, node: Function) -> tuple[CodeEffects, set[str]]:
        """Return the effects of a function's own statements, and the names of its
        callees; record the aliases that it makes of the module's names.
        """
        declared = {
            n for x in ast.walk(node) if isinstance(x, ast.Global) for n in x.names
        }
        local = _locals_of(node) - declared
        finder = _Finder(self, local)
        for each in node.body if isinstance(node.body, list) else [node.body]:
            finder.visit(each)
        found = finder.effects
        for names in (found.changes, found.given):
            reached = closure(names, finder.aliases)
            found.parameters |= reached & {*parameters(node)}
            names.update(reached)
            names -= local
        found.stores |= declared & _stored_in(node)
        for name in finder.aliases.keys() - local:
            reached = closure(finder.aliases[name], finder.aliases) - local
            self.aliases.setdefault(name, set()).update(reached)
        called = finder.called
        for each in getattr(node, "decorator_list", []):  # it is what they return
            names = {x.id for x in ast.walk(each) if isinstance(x, ast.Name)}
            called |= {_key_of_nested(name) for name in names}
        return found, closure(called, finder.aliases) - local

    # ---- statements

    def _effects_of(self, node: ast.stmt) -> CodeEffects:
        """Return the effects of a top-level statement; record aliases that it makes."""
        finder = _Finder(self, set())
        finder.is_top = True
        finder.visit(node)
        for name, sources in finder.aliases.items():
            self.aliases.setdefault(name, set()).update(sources)
        found = finder.effects
        called = closure(finder.called, self.aliases) & self.functions.keys()
        for name in called:
            found.add(self.summary(name))
        return found


class _Finder(ast.NodeVisitor):
    """A visitor that collects the effects, callees and aliases of statements.

    Args:
        owner: the module that they are of.
        local: names that are not the module's.
    """

    def __init__(self, owner: ModuleEffects, local: set[str]) -> None:
        self._owner, self._local = owner, local
        self.effects = CodeEffects()
        self.called: set[str] = set()
        self.aliases: dict[str, set[str]] = {}
        self.is_top = False

    # ---- values

    def value(self, node: ast.expr) -> object:
        """Return the current value of a dotted name; UNKNOWN for other expressions."""
        match node:
            case ast.Name(name) if name not in self._local:
                default = getattr(builtins, name, UNKNOWN)
                return self._owner.scope.get(name, default)
            case ast.Attribute(inner, name):
                return attribute(self.value(inner), name)
            case _:
                return UNKNOWN

    def sources(self, node: ast.AST | None) -> set[str]:
        """Return the names whose objects an expression may return, or hold."""
        match node:
            case None | ast.Constant() | ast.JoinedStr() | ast.Compare():
                return set()
            case ast.Name(name):
                is_value = name not in self._local and self._owner.is_value(name)
                return set() if is_value else {name}
            case ast.Attribute(inner):
                known = self.value(node)
                is_fixed = isinstance(known, (types.FunctionType, type)) or (
                    isinstance(known, types.ModuleType) or is_immutable(known)
                )
                return set() if is_fixed else self.sources(inner)
            case ast.Subscript(inner):
                return self.sources(inner)
            case ast.BinOp(op=op) if isinstance(op, _FRESH_OPERATORS):
                return set()
            case ast.Call():
                return self._sources_of_call(node)
        return set().union(*map(self.sources, ast.iter_child_nodes(node)))

    def _sources_of_call(self, node: ast.Call) -> set[str]:
        """Return the names whose objects the result of a call may be, or hold."""
        function = self.value(node.func)
        given = set().union(*map(self.sources, _arguments_of(node)))
        if isinstance(function, np.ufunc) or any(function is x for x in _SCALAR):
            return set()
        if isinstance(node.func, ast.Name) and node.func.id in self._owner.functions:
            return given | self._read_by(node.func.id)
        if isinstance(node.func, ast.Attribute):
            if node.func.attr in _FRESH:
                return set()
            if not isinstance(self.value(node.func.value), types.ModuleType):
                given |= self.sources(node.func.value)
        elif not isinstance(function, (types.FunctionType, types.BuiltinFunctionType)):
            given |= set() if isinstance(function, type) else self.sources(node.func)
        return given

    def _read_by(self, function: str) -> set[str]:
        """Return the module's variables whose objects a function of it may return."""
        nodes = [y for x in self._owner.functions[function] for y in ast.walk(x)]
        names = {x.id for x in nodes if isinstance(x, ast.Name)}
        scope = self._owner.scope
        return {
            name
            for name in names & scope.keys()
            if not self._owner.is_value(name) and not callable(scope[name])
            if not isinstance(scope[name], types.ModuleType)
        }

    # ---- effects

    def _change(self, node: ast.AST, holds: Iterable[ast.AST] = ()) -> None:
        """Record that an expression's object may be mutated, and may then hold
        `holds`.
        """
        found = self.sources(node)
        self.effects.changes |= found
        self._note_objects(node, self.effects.objects)
        held = set().union(*map(self.sources, holds))
        for name in found:
            self._alias(name, held - {name})

    def _give(self, nodes: Sequence[ast.expr]) -> None:
        """Record that an unknown function receives objects, which it may change and
        keep.
        """
        found = set().union(*map(self.sources, nodes))
        self.effects.given |= found
        for node in nodes:
            self._note_objects(node, self.effects.given_objects)
        for name in found:
            self._alias(name, found - {name})

    def _note_objects(self, node: ast.AST, found: list[object]) -> None:
        """Append the mutable value of an expression, or of its known owner, to
        `found`.
        """
        known = self.value(node) if isinstance(node, ast.expr) else UNKNOWN
        if known is not UNKNOWN and not is_immutable(known):
            found.append(known)
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            self._note_objects(node.value, found)

    def _alias(self, name: str, sources: set[str]) -> None:
        """Record that a name may alias, or hold, objects of other names."""
        if sources:
            self.aliases.setdefault(name, set()).update(sources)

    def _store(self, target: ast.AST, value: ast.AST | None) -> None:
        """Record the effects of assigning a value to a target: aliases and
        mutations.
        """
        match target:
            case ast.Name(name):
                self._alias(name, self.sources(value) - {name})
            case ast.Attribute(inner) | ast.Subscript(inner):
                self._change(inner, [value] if value is not None else [])
            case ast.Starred(inner):
                self._store(inner, value)
            case ast.Tuple(parts) | ast.List(parts):
                for each in parts:
                    self._store(each, value)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Record an assignment's stores, and the effects of its expressions."""
        for target in node.targets:
            self._store(target, node.value)
        is_definition = isinstance(node.value, ast.Lambda) and self.is_top
        if not is_definition:
            self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Record an annotated assignment's store, and the effects of its
        expressions.
        """
        if node.value is not None:
            self._store(node.target, node.value)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Record `x += y` as a store and a mutation of the target."""
        self._store(node.target, node.value)
        self._change(node.target, [node.value])
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        """Record the store of `:=`, and the effects of its value."""
        self._store(node.target, node.value)
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        """Record the mutations of owners whose items or attributes are deleted."""
        for each in node.targets:
            self._store(each, None)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        """Record a loop's stores to its target, and that its iterator is advanced."""
        self._iterate(node.target, node.iter)
        self.generic_visit(node)

    visit_AsyncFor = visit_For

    def visit_comprehension(self, node: ast.comprehension) -> None:
        """Record a comprehension's stores to its target, and that its iterator is
        advanced.
        """
        self._iterate(node.target, node.iter)
        self.generic_visit(node)

    def _iterate(self, target: ast.expr, over: ast.expr) -> None:
        """Record that a target is assigned elements of an iterable, which is
        advanced.
        """
        self._store(target, over)
        self._use_up([over])

    def _use_up(self, nodes: Iterable[ast.expr]) -> None:
        """Record that iterators among expressions are advanced."""
        for each in nodes:
            if isinstance(self.value(each), Iterator):
                self._change(each)

    def visit_withitem(self, node: ast.withitem) -> None:
        """Record that a context manager may change and is assigned to its `as`
        target.
        """
        self._change(node.context_expr)
        if node.optional_vars is not None:
            self._store(node.optional_vars, node.context_expr)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Record unknown effects for an access to `sys.modules`."""
        if self.value(node) is sys.modules:  # the module itself may be in it
            self.effects.is_unknown = True
        self.generic_visit(node)

    # ---- definitions

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Record the effects of a definition: of its decorators, defaults and nested
        body.
        """
        self._decorate(node)
        defaults = [*node.args.defaults, *(x for x in node.args.kw_defaults if x)]
        for each in defaults:
            self.visit(each)
        self._alias(node.name, set().union(*map(self.sources, defaults)))
        if not self.is_top:  # in a function, which may call it
            for statement in node.body:
                self.visit(statement)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Record the effects of a class statement: of its decorators, bases and
        body.
        """
        self._decorate(node)
        self.called |= {".__init_subclass__", ".__set_name__"}
        made = self._owner.scope.get(node.name)
        if node.keywords or type(made) is not type:  # it has a metaclass
            self.called |= {n for n in self._owner.functions if n.startswith(".")}
        for each in [*node.bases, *node.keywords, *node.body]:
            self.visit(each)
            if isinstance(each, (ast.Assign, ast.AnnAssign)):
                self._alias(node.name, self.sources(each.value))

    def _decorate(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    ) -> None:
        """Record the effects of calling a definition's decorators with it."""
        for each in node.decorator_list:
            call = ast.Call(each, [ast.Name(node.name, ast.Load())], [])
            self.visit(ast.copy_location(call, node))

    # ---- calls

    def visit_Call(self, node: ast.Call) -> None:
        """Record the effects of a call by what is known of the called function."""
        self.generic_visit(node)
        function, name = self.value(node.func), getattr(node.func, "id", "")
        if name == REGIONS or (function is not UNKNOWN and is_own(function)):
            return
        given = _arguments_of(node)
        self.called |= {x.id for x in given if isinstance(x, ast.Name)}
        self._use_up(given)
        if name in _UNKNOWN_EFFECTS or (name == "vars" and not given):
            self.effects.is_unknown = True
        elif name in self._owner.functions and name not in self._local:
            self._call_own(node, name, 0)
        elif isinstance(node.func, ast.Attribute):
            self._call_attribute(node, node.func, function)
        elif not computes(function, node):
            self._call_unknown(node, function)

    def _call_own(self, node: ast.Call, name: str, skipped_parameters: int) -> None:
        """Record a call of a function, class or method that the module defines."""
        self.called.add(name)
        summary = self._owner.summary(name)
        held = set().union(*map(self.sources, _arguments_of(node)))
        for kept in summary.changes | summary.stores:  # they may hold it now
            self._alias(kept, held - {kept})
        changed = summary.parameters
        for definition in self._owner.functions[name]:
            is_method = skipped_parameters or getattr(definition, "name", name) != name
            names = parameters(definition)[1 if is_method else 0 :]
            for position, each in enumerate(node.args):
                known = position < len(names) and not isinstance(each, ast.Starred)
                if not known or names[position] in changed:
                    self._change(each, _arguments_of(node))
            for keyword in node.keywords:
                if keyword.arg is None or keyword.arg in changed:
                    self._change(keyword.value, _arguments_of(node))

    def _call_attribute(
        self, node: ast.Call, target: ast.Attribute, function: object
    ) -> None:
        """Record a call of `a.b(…)`: of a module's function or of an object's
        method.
        """
        receiver = self.value(target.value)
        if isinstance(receiver, (types.ModuleType, type)):
            if not computes(function, node):
                self._call_unknown(node, function)
            return
        method = f".{target.attr}"
        is_known = is_container(receiver) or receiver is UNKNOWN
        if target.attr in _READING and is_known and method not in self._owner.functions:
            return
        self._change(target.value, _arguments_of(node))
        if method in self._owner.functions:
            self._call_own(node, method, 1)
        elif not is_container(receiver):
            self._give(_arguments_of(node))

    def _call_unknown(self, node: ast.Call, function: object) -> None:
        """Record a call of a function that may change its arguments and its
        `__self__`.
        """
        given = _arguments_of(node)
        if function is UNKNOWN:
            self._give([node.func])
            self.called |= self.sources(node.func)
            self._give(given)
            return
        bound = getattr(function, "__self__", None)
        if bound is not None and not isinstance(bound, types.ModuleType):
            self.effects.objects.append(bound)
        if isinstance(function, functools.partial):
            self.called.add(getattr(function.func, "__name__", ""))
        if isinstance(function, types.FunctionType):  # one that another has made
            self.called.add(_key_of_nested(function.__qualname__.partition(".")[0]))
        elif not isinstance(function, (type, types.BuiltinFunctionType, np.ufunc)):
            self.called.add(".__call__")
            self._change(node.func)
        if library(function) in (*sys.stdlib_module_names, "numpy"):  # it is one of few
            for each in given:
                self._change(each)
        self._give(given)


# ---- functions and names


def _key_of_nested(name: str) -> str:
    """Return the key for the functions that a function defines inside:
    `name.<locals>`.
    """
    return f"{name}.<locals>"


def _arguments_of(node: ast.Call) -> list[ast.expr]:
    """Return the argument expressions of a call."""
    return [*node.args, *(each.value for each in node.keywords)]


def parameters(node: Function) -> list[str]:
    """Return the names of a function's parameters, in the order of calls."""
    found = node.args
    rest = [each for each in (found.vararg, found.kwarg) if each]
    named = [*found.posonlyargs, *found.args, *found.kwonlyargs, *rest]
    return [each.arg for each in named]


def _stored_in(node: ast.AST) -> set[str]:
    """Return the names that a node binds anywhere in it."""
    found = set[str]()
    for each in ast.walk(node):
        match each:
            case ast.Name(name, ctx=ast.Store() | ast.Del()):
                found.add(name)
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name):
                found.add(name)
            case ast.ClassDef(name):
                found.add(name)
            case ast.alias():
                found.add(each.asname or each.name.partition(".")[0])
            case ast.ExceptHandler(name=str(name)):
                found.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                found.add(name)
            case ast.MatchMapping(rest=str(name)):
                found.add(name)
    return found


def _locals_of(node: Function) -> set[str]:
    """Return the names that a function, or one nested in it, binds."""
    inner = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    body = node.body if isinstance(node.body, list) else [node.body]
    return inner.union(*map(_stored_in, body))


def _names_stored_once(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that only one statement of a module assigns."""
    once, more = set[str](), set[str]()
    for each in body:
        declared = (x.names for x in ast.walk(each) if isinstance(x, ast.Global))
        more.update(*declared)
        found = stores(each)
        more |= found & once
        once |= found
    return once - more


def closure(names: Iterable[str], aliases: Mapping[str, set[str]]) -> set[str]:
    """Return names with all they may alias: the transitive closure under `aliases`."""
    found, left = set[str](), [*names]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += aliases.get(name, ())
    return found

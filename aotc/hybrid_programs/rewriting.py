"""A function's statements → runs of them, which are compiled as far as they can be."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from aotc.hybrid_programs.names import assigned, live_before, needed, reads, stores
from aotc.hybrid_programs.statements import computes, is_candidate, operations

RESULT = "_aotc_result"

# body, inputs, outputs, names that have values before → number of the run
AddRun = Callable[[list[ast.stmt], list[str], list[str], set[str]], int]


class Rewriter:
    """Replaces runs of statements by calls.

    Args:
        names: of the function's variables.
        add: takes note of a run, and gives its number.
        note: takes note of a statement that is Python's, and gives its number.
    """

    def __init__(
        self, names: set[str], add: AddRun, note: Callable[[ast.stmt], int]
    ) -> None:
        self.names = names
        self._add, self._list = add, note
        self._counter = itertools.count()

    def fresh(self) -> str:
        """A variable that the function does not have yet."""
        name = f"_aotc_{next(self._counter)}"
        self.names.add(name)
        return name

    def rewrite(
        self,
        body: Sequence[ast.stmt],
        before: set[str],
        after: set[str],
        *,
        alone: bool = False,
    ) -> list[ast.stmt]:
        """Statements with calls of runs in place of those that may be compiled.

        Args:
            body: the statements.
            before: names that have values.
            after: names that are read afterwards.
            alone: whether each statement is a run of its own, so that an exception
                leaves the variables as the statements before have.
        """
        body = [part for each in body for part in self._apart(each)]
        live = live_before(body, after)
        found, run = list[ast.stmt](), list[ast.stmt]()
        has = set(before)
        for number, each in enumerate(body):
            if is_candidate(each):
                run.append(each)
                if not alone and number + 1 < len(body):
                    continue
            found += self._as_run(run, has, live[number + bool(is_candidate(each))])
            has |= assigned(run)
            run = []
            if not is_candidate(each):
                found.append(self.descend(each, has, live[number + 1]))
                has |= assigned([each])
        return found

    def _apart(self, node: ast.stmt) -> list[ast.stmt]:
        """A statement, with what it decides on or returns as one of its own before."""
        if (
            isinstance(node, ast.Return)
            and node.value
            and computes([ast.Expr(node.value)])
        ):
            target = ast.copy_location(ast.Name(RESULT, ast.Store()), node)
            self.names.add(RESULT)
            value = ast.copy_location(ast.Assign([target], node.value), node)
            result = ast.copy_location(ast.Name(RESULT, ast.Load()), node)
            return [value, ast.copy_location(ast.Return(result), node)]
        blocks = (ast.If, ast.For, ast.While)
        if isinstance(node, blocks) and not is_candidate(node):
            split = operations(node, self.fresh)
            return [node] if split is None else [*split[0], split[1]]
        return [node]

    def _as_run(
        self, body: list[ast.stmt], before: set[str], live: set[str]
    ) -> list[ast.stmt]:
        """A call of a run, or its statements where it cannot be one."""
        if not body or not computes(body):
            return body
        outputs = stores(*body) & live & self.names
        uncertain = outputs - assigned(body)
        inputs = (needed(body) | uncertain) & self.names
        if not inputs <= before:
            return self._one_by_one(body, before, live)
        number = self._add(body, sorted(inputs), sorted(outputs), before)
        return [_call_of_run(number, sorted(inputs), sorted(outputs), body[0])]

    def _one_by_one(
        self, body: list[ast.stmt], before: set[str], live: set[str]
    ) -> list[ast.stmt]:
        """Statements of which one or more read variables that may have no value."""
        if len(body) == 1:
            (node,) = body
            if isinstance(node, (ast.If, ast.For, ast.While)):
                return [self.descend(node, before, live)]
            return [_count(self._list(node)), node]
        has, found = set(before), list[ast.stmt]()
        for each, then in zip(body, live_before(body, live)[1:], strict=True):
            found += self._as_run([each], has, then)
            has |= assigned([each])
        return found

    def descend(self, node: Any, before: set[str], after: set[str]) -> Any:
        """A statement that stays Python's, with runs in the blocks inside it."""
        match node:
            case ast.If():
                inside, behind = before, after
            case ast.For():
                inside = before | stores(node.target)
                behind = after | reads(node)
            case ast.While():
                inside, behind = before, after | reads(node)
            case ast.With():
                taken = [x.optional_vars for x in node.items if x.optional_vars]
                inside, behind = before | stores(*taken), after
            case ast.Match():
                cases = [
                    _with_fields(
                        x,
                        {
                            "body": self.rewrite(
                                x.body, before | stores(x.pattern), after
                            )
                        },
                    )
                    for x in node.cases
                ]
                return _with_fields(node, {"cases": cases})
            case ast.Try():
                return self._descend_try(node, before, after | reads(node))
            case _:
                return node
        fields = {"body": self.rewrite(node.body, inside, behind)}
        if getattr(node, "orelse", None):
            fields["orelse"] = self.rewrite(node.orelse, before, behind)
        return _with_fields(node, fields)

    def _descend_try(self, node: Any, before: set[str], after: set[str]) -> Any:
        def inner(body: list[ast.stmt], has: set[str]) -> list[ast.stmt]:
            return self.rewrite(body, has, after, alone=True)

        handlers = [
            _with_fields(
                each, {"body": inner(each.body, before | {each.name or ""} - {""})}
            )
            for each in node.handlers
        ]
        fields = {
            "body": inner(node.body, before),
            "handlers": handlers,
            "orelse": inner(node.orelse, before | assigned(node.body)),
            "finalbody": inner(node.finalbody, before),
        }
        return _with_fields(node, fields)


def _with_fields(node: Any, fields: dict[str, Any]) -> Any:
    kept = {name: getattr(node, name, None) for name in node._fields}
    return ast.copy_location(type(node)(**{**kept, **fields}), node)


def _count(number: int) -> ast.stmt:
    return ast.parse(f"_aotc_python[{number}].count()").body[0]


def _call_of_run(
    number: int, inputs: list[str], outputs: list[str], node: ast.AST
) -> ast.stmt:
    call = f"_aotc_runs[{number}]({', '.join(inputs)})"
    text = f"({', '.join(outputs)},) = {call}" if outputs else call
    (made,) = ast.parse(text).body
    for part in ast.walk(made):
        if hasattr(part, "lineno"):
            ast.copy_location(part, node)
    return made

"""A function's statements → runs of them, which are compiled as far as they can be."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from aotc.hybrid_programs.python.names import (
    assigned_names,
    captures,
    deletes,
    live_before,
    needed_names,
    reads,
    stores,
)
from aotc.hybrid_programs.python.statements import computes, is_candidate, operations
from aotc.hybrid_programs.python.syntax import with_fields

RESULT = "_aotc_result"

# body, inputs, outputs, names that have values before → number of the run
AddRun = Callable[[list[ast.stmt], list[str], list[str], set[str]], int]


@dataclass(frozen=True)
class StatementPosition:
    """Facts on the blocks around statements that affect which variables are live.

    Args:
        in_loop: in the body of a loop, which `break` and `continue` leave.
        is_protected: in a `try` or `with`, which exceptions leave; what was assigned
            before matters then.
    """

    in_loop: bool = False
    is_protected: bool = False


class Rewriter:
    """Replaces sequences of statements that may be compiled by calls of a `Run`.

    Args:
        names: of the function's variables.
        late_bound: those that functions inside see change; statements that assign or
            capture them stay in the function.
        is_module: whether a name is one of a module.
        add: takes note of a run, and gives its number.
        note: takes note of a statement that is Python's and why, and gives its number.
    """

    def __init__(
        self,
        names: set[str],
        late_bound: set[str],
        is_module: Callable[[str], bool],
        add: AddRun,
        note: Callable[[ast.stmt, str], int],
    ) -> None:
        self.names = names
        self._late_bound, self.is_module = late_bound, is_module
        self._add, self._note = add, note
        self._counter = itertools.count()

    def fresh(self) -> str:
        """Return a new variable name, and add it to the function's variables."""
        name = f"_aotc_{next(self._counter)}"
        self.names.add(name)
        return name

    def rewrite(
        self,
        body: Sequence[ast.stmt],
        before: set[str],
        after: set[str],
        place: StatementPosition = StatementPosition(),  # noqa: B008  it is frozen
    ) -> list[ast.stmt]:
        """Return statements in which sequences that may be compiled are calls of a
        `Run`.

        Args:
            body: the statements.
            before: names that have values.
            after: names that are read afterwards.
            place: where they stand.
        """
        body = self._split_all_heads(body, before, place)
        live = self._live(body, after, place)
        found, run = list[ast.stmt](), list[ast.stmt]()
        has = set(before)
        for number, each in enumerate(body):
            can_run = self._can_run(each, place)
            if can_run:
                run.append(each)
                if not place.is_protected and number + 1 < len(body):
                    continue
            found += self._as_run(run, has, live[number + can_run], place)
            has = (has | assigned_names(run)) - deletes(*run)
            run = []
            if not can_run:
                found += self._as_python(each, has, live[number + 1], place)
                has = (has | assigned_names([each])) - deletes(each)
        return found

    def _live(
        self, body: Sequence[ast.stmt], after: set[str], place: StatementPosition
    ) -> list[set[str]]:
        """Return the variables live before each statement, and after the last.

        What is assigned later may matter all the same where statements in between are
        left.
        """
        if place.is_protected:
            return [after | self.names] * (len(body) + 1)
        if place.in_loop:
            return [after | reads(*body)] * (len(body) + 1)
        return live_before(body, after)

    def _can_run(self, node: ast.stmt, place: StatementPosition) -> bool:
        """Return whether a statement may be part of a `Run` at its position."""
        if not is_candidate(node) or self._binds_late(node):
            return False
        blocks = (ast.If, ast.For, ast.While)
        return not (
            place.is_protected and (isinstance(node, blocks) or _has_walrus(node))
        )

    def _binds_late(self, node: ast.stmt) -> bool:
        """Return whether a statement assigns or captures a late-bound variable."""
        return not self._late_bound.isdisjoint(stores(node) | captures(node))

    def _as_python(
        self,
        node: ast.stmt,
        before: set[str],
        after: set[str],
        place: StatementPosition,
    ) -> list[ast.stmt]:
        """Rewrite a statement that no `Run` may contain; its blocks may have some."""
        if is_candidate(node) and self._binds_late(node) and not _is_block(node):
            reason = "functions inside see its variables change"
            counts = (
                [_count_statement(self._note(node, reason))] if computes([node]) else []
            )
            return [*counts, node]
        return [self.descend(node, before, after, place)]

    def _split_all_heads(
        self, body: Sequence[ast.stmt], before: set[str], place: StatementPosition
    ) -> list[ast.stmt]:
        """Return statements with tests, iterables and returned expressions split
        off.
        """
        has, found = set(before), list[ast.stmt]()
        for each in body:
            found += self._split_head(each, has, place)
            has = (has | assigned_names([each])) - deletes(each)
        return found

    def _split_head(
        self, node: ast.stmt, assigned_before: set[str], place: StatementPosition
    ) -> list[ast.stmt]:
        """Split off the test, iterable or returned expression of a statement; return
        the statements that replace it.

        Where a variable may have no value, that is found when Python gets to it.
        """
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
        if _is_block(node) and not self._can_run(node, place):
            head = head_of(node)
            if head is not None and not reads(head) & self.names <= assigned_before:
                return [node]
            split = operations(node, self.fresh, self.names, self.is_module)
            return [node] if split is None else [*split[0], split[1]]
        return [node]

    def _as_run(
        self,
        body: list[ast.stmt],
        before: set[str],
        live: set[str],
        place: StatementPosition,
    ) -> list[ast.stmt]:
        """Replace statements by a call of a new `Run`, or one by one where an input may
        be unassigned; return them as they are where nothing in them computes.
        """
        if not body or not computes(body):
            return body
        outputs = stores(*body) & live & self.names
        uncertain = outputs - assigned_names(body)
        inputs = (needed_names(body) | uncertain) & self.names
        if not inputs <= before:
            return self._one_by_one(body, before, live, place)
        number = self._add(body, sorted(inputs), sorted(outputs), before)
        return [_call_of_run(number, sorted(inputs), sorted(outputs), body[0])]

    def _one_by_one(
        self,
        body: list[ast.stmt],
        before: set[str],
        live: set[str],
        place: StatementPosition,
    ) -> list[ast.stmt]:
        """Replace each of some statements by a `Run` of its own where it reads no
        variable that may be unassigned.
        """
        if len(body) == 1:
            (node,) = body
            if _is_block(node):
                return [self.descend(node, before, live, place)]
            reason = "a variable may have no value here, so bytes are not measured"
            return [_count_statement(self._note(node, reason)), node]
        has, found = set(before), list[ast.stmt]()
        for each, then in zip(body, self._live(body, live, place)[1:], strict=True):
            found += self._as_run([each], has, then, place)
            has = has | assigned_names([each])
        return found

    def descend(
        self,
        node: ast.stmt,
        before: set[str],
        after: set[str],
        place: StatementPosition = StatementPosition(),  # noqa: B008  it is frozen
    ) -> ast.stmt:
        """Return a copy of a statement that Python executes, in whose blocks calls of
        `Run`s replace what may be compiled.
        """
        inner, lost = place, deletes(*getattr(node, "body", []))
        match node:
            case ast.If():
                inside, behind = before, after
            case ast.For():
                before = before - lost
                inside = before | stores(node.target)
                behind, inner = after | reads(node), replace(place, in_loop=True)
            case ast.While():
                inside = before = before - lost
                behind, inner = after | reads(node), replace(place, in_loop=True)
            case ast.With():
                taken = [x.optional_vars for x in node.items if x.optional_vars]
                inside, behind = before | stores(*taken), after
                inner = replace(place, is_protected=True)
            case ast.Match():
                cases = [
                    with_fields(
                        x,
                        body=self.rewrite(
                            x.body, before | stores(x.pattern), after, place
                        ),
                    )
                    for x in node.cases
                ]
                return with_fields(node, cases=cases)
            case ast.Try():
                inner = replace(place, is_protected=True)
                return self._descend_try(node, before, after | reads(node), inner)
            case _:
                return node
        fields = {"body": self.rewrite(node.body, inside, behind, inner)}
        if orelse := getattr(node, "orelse", None):
            fields["orelse"] = self.rewrite(orelse, before, behind, place)
        return with_fields(node, **fields)

    def _descend_try(
        self, node: ast.Try, before: set[str], after: set[str], place: StatementPosition
    ) -> ast.Try:
        """Return a `try` statement with runs in its blocks."""

        def inner(body: list[ast.stmt], has: set[str]) -> list[ast.stmt]:
            return self.rewrite(body, has, after, place)

        kept = before - deletes(*node.body)
        handlers = [
            with_fields(each, body=inner(each.body, kept | {each.name or ""} - {""}))
            for each in node.handlers
        ]
        return with_fields(
            node,
            body=inner(node.body, before),
            handlers=handlers,
            orelse=inner(node.orelse, kept | assigned_names(node.body)),
            finalbody=inner(node.finalbody, before - deletes(node)),
        )


def _is_block(node: ast.stmt) -> bool:
    """Return whether a statement is `if`, `for` or `while`."""
    return isinstance(node, (ast.If, ast.For, ast.While))


def head_of(node: ast.stmt) -> ast.expr | None:
    """Return the test or iterable of `if`, `while` or `for`; None for other
    statements.
    """
    if isinstance(node, (ast.If, ast.While)):
        return node.test
    return node.iter if isinstance(node, ast.For) else None


def _has_walrus(node: ast.stmt) -> bool:
    """Return whether an expression of a statement binds a variable by `:=`."""
    return any(isinstance(part, ast.NamedExpr) for part in ast.walk(node))


def _count_statement(number: int) -> ast.stmt:
    """Return the statement that counts a call at a numbered boundary."""
    return ast.parse(f"_aotc_python[{number}].count()").body[0]


def _call_of_run(
    number: int, inputs: list[str], outputs: list[str], node: ast.AST
) -> ast.stmt:
    """Return the statement that assigns the outputs of a numbered run, called on
    inputs.
    """
    call = f"_aotc_runs[{number}]({', '.join(inputs)})"
    text = f"({', '.join(outputs)},) = {call}" if outputs else call
    (made,) = ast.parse(text).body
    for part in ast.walk(made):
        if hasattr(part, "lineno"):
            ast.copy_location(part, node)
    return made

"""The expression of the user's source that was being evaluated when an error arose.

CPython records the columns of every instruction (PEP 657), so a traceback leads to a
node of the source's syntax tree: the test of an `if`, the iterable of a `for`, a call.
"""

from __future__ import annotations

import ast
import linecache
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from types import CodeType, FrameType, TracebackType

from aotc.tracing.source_locations import is_in_model, is_own

Span = tuple[int | None, int | None, int | None, int | None]

# expressions that can be evaluated again without doing anything
_READING = (
    ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.JoinedStr,
    ast.FormattedValue, ast.BinOp, ast.operator, ast.expr_context, ast.Slice,
)  # fmt: skip


@dataclass(frozen=True)
class UserFrame:
    """A frame of the user's code, with the line and instruction being executed."""

    frame: FrameType
    line: int
    instruction: int

    @property
    def function(self) -> str:
        """The name of the function; `<module>` for the top level of a file."""
        return self.frame.f_code.co_name


@dataclass(frozen=True)
class Expression:
    """A node of the user's source, its ancestors (nearest first), and its frame."""

    node: ast.AST
    ancestors: tuple[ast.AST, ...]
    frame: FrameType

    def value_of(self, node: ast.AST) -> object:
        """Return the value of an expression that only reads variables; None for
        others.
        """
        reads = all(isinstance(part, _READING) for part in ast.walk(node))
        if not isinstance(node, ast.expr) or not reads:
            return None
        code = compile(ast.Expression(node), "<expression>", "eval")
        try:
            found: object = eval(code, self.frame.f_globals, self.frame.f_locals)
            return found
        except Exception:  # the same lookup that failed, or one that does
            return None


def user_calls(trace: TracebackType | None) -> list[UserFrame]:
    """Return the user's frames of a traceback, outermost first.

    Frames of aotc are left out, and those of libraries if the model's folder is known.
    """
    calls, step = [], trace
    while step is not None:
        frame = step.tb_frame
        if not is_own(frame.f_globals.get("__name__", "")):
            calls.append(UserFrame(frame, step.tb_lineno, step.tb_lasti))
        step = step.tb_next
    in_model = [call for call in calls if is_in_model(call.frame.f_code.co_filename)]
    return in_model or calls


def innermost_frame(error: BaseException) -> FrameType | None:
    """Return the frame that raised an error, or None."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return frames[-1] if frames else None


def expression_at(call: UserFrame) -> Expression | None:
    """Return the expression that a frame was evaluating; None without its source."""
    code = call.frame.f_code
    span = _span(code, call.instruction)
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except (SyntaxError, ValueError):
        return None
    path = list(_path_to(tree, span))
    if len(path) < 2 or _span_of(path[-1]) != span:
        return None
    return Expression(path[-1], tuple(reversed(path[:-1])), call.frame)


def _span(code: CodeType, instruction: int) -> Span:
    """Return the source span of a bytecode instruction."""
    found = next(islice(code.co_positions(), instruction // 2, None), (None,) * 4)
    line, end_line, column, end_column = found
    return line, column, end_line, end_column


def _span_of(node: ast.AST) -> Span:
    """Return the source span of a syntax node."""
    names = ("lineno", "col_offset", "end_lineno", "end_col_offset")
    line, column, end_line, end_column = (getattr(node, name, None) for name in names)
    return line, column, end_line, end_column


def _path_to(tree: ast.AST, span: Span) -> Iterator[ast.AST]:
    """Yield the syntax nodes around a span, from the root to the innermost."""
    node: ast.AST | None = tree
    while node is not None:
        yield node
        around = (child for child in ast.iter_child_nodes(node) if _holds(child, span))
        node = next(around, None)


def _holds(node: ast.AST, span: Span) -> bool:
    """Return whether a syntax node encloses a source span."""
    line, column, end_line, end_column = _span_of(node)
    if None in span or None in (line, column, end_line, end_column):
        # a node without a place of its own, such as the arguments of a lambda
        inner = ast.iter_child_nodes(node) if line is None else ()
        return any(_holds(child, span) for child in inner)
    return (line, column) <= span[:2] and span[2:] <= (end_line, end_column)

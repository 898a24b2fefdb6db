"""Small changes of a program, one at a time: each is a fault that a test should notice.

The operators are those that A. J. Offutt et al. found sufficient (ACM TOSEM 5 (1996) 99): relations,
arithmetic, logic and constants; and, as in `mutmut` and `cosmic-ray`, negated conditions and deleted
statements.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

RELATIONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    line: int
    """Line of the change in the original file."""
    at_import: bool
    """No function has the line: it runs when the module is imported."""
    before: str
    """The original statement, on one line."""
    after: str
    source: str
    """The whole file with the change."""


def count(source: str) -> int:
    """Return the number of mutants of a file."""
    return sum(1 for _ in _changes(ast.parse(source)))


def mutant(source: str, number: int) -> Mutant:
    """Return one mutant of a file.

    Args:
        source: The file.
        number: From 0, in the order of the syntax tree.
    """
    tree = ast.parse(source)
    change = next(change for index, change in enumerate(_changes(tree)) if index == number)
    statement = _smallest_statement(tree, change.line)
    before, at_import = _flat(ast.unparse(statement)), not _in_function(tree, change.line)
    change.apply()
    after = "pass" if change.deletes else _flat(ast.unparse(statement))
    return Mutant(change.line, at_import, before, after, ast.unparse(tree))


def _in_function(tree: ast.Module, line: int) -> bool:
    return any(
        isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body[0].lineno <= line <= (node.end_lineno or node.lineno)
        for node in ast.walk(tree)
    )


class _Change:
    """A change of the tree, not yet made."""

    def __init__(self, line: int, owner: object, field: str | int, value: object) -> None:
        self.line = line
        self.deletes = isinstance(value, ast.Pass)
        self._owner, self._field, self._value = owner, field, value

    def apply(self) -> None:
        if isinstance(self._owner, list):
            assert isinstance(self._field, int)
            self._owner[self._field] = self._value
        else:
            setattr(self._owner, str(self._field), self._value)


def _changes(tree: ast.Module) -> Iterator[_Change]:
    for node in (tree, *_code(tree)):
        if isinstance(node, ast.Compare):
            for index, relation in enumerate(node.ops):
                yield _Change(node.lineno, node.ops, index, RELATIONS[type(relation)]())
        elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in ARITHMETIC:
            yield _Change(node.lineno, node, "op", ARITHMETIC[type(node.op)]())
        elif isinstance(node, ast.BoolOp):
            yield _Change(node.lineno, node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
        elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
            yield _Change(node.lineno, node, "value", _other(node.value))
        elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
            yield _Change(node.lineno, node, "value", ast.Constant(None))
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            yield _Change(node.test.lineno, node, "test", ast.UnaryOp(ast.Not(), node.test))
        elif isinstance(node, ast.comprehension):
            for index, condition in enumerate(node.ifs):
                yield _Change(condition.lineno, node.ifs, index, ast.UnaryOp(ast.Not(), condition))
        for block in _blocks(node):
            for index, statement in enumerate(block):
                if isinstance(statement, (ast.AugAssign, ast.Continue, ast.Break, ast.Raise)) or (
                    isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
                ):
                    yield _Change(
                        statement.lineno, block, index, ast.Pass(lineno=statement.lineno, col_offset=0)
                    )


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk the code that runs: no annotations, no decorators, no blocks for type checkers."""
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "type_params", "decorator_list"):
            continue
        if field == "keywords" and isinstance(tree, ast.ClassDef):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST):
                continue
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            yield child
            yield from _code(child)


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if isinstance(block, list):
            yield block


def _other(value: float) -> float:
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return value * 1.1 if value else 0.1
    return value + 1


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _smallest_statement(tree: ast.Module, line: int) -> ast.stmt:
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return max(around, key=lambda node: (node.lineno, -(node.end_lineno or 0)))


def _flat(code: str) -> str:
    return " ".join(line.strip() for line in code.splitlines())

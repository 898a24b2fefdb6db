"""Extraction of a function's name from a demangled name."""

from __future__ import annotations

import re

RETURNS = re.compile(r"^(?:std::enable_if<.*?>::type|(?:static\s+)?void)\s+")
"""The type that a kernel returns, at the start of a demangled name."""
_NAMELESS = re.compile(r"\(anonymous namespace\)|<unnamed>|\{anonymous\}|`anonymous namespace'")
# Their characters are no brackets.
_OPERATOR = re.compile(r"\boperator\s*(<=>|<<=|>>=|<<|>>|<=|>=|->\*|->|<|>|\(\)|\[\])|->")
_PAIRS = {")": "(", ">": "<", "]": "["}


def function_name(demangled: str) -> str:
    """Extract the function name from a demangled name, as close to that of ncu as the text allows.

    `void at::vectorized_elementwise_kernel<4, float>(int, T2)` gives `vectorized_elementwise_kernel`.
    """
    operators: list[str] = []

    def hide(found: re.Match[str]) -> str:
        operators.append(re.sub(r"\s", "", found[0]))
        return "\0"

    text = _OPERATOR.sub(hide, _NAMELESS.sub("", demangled))
    brackets = "(<[" if text.count("[") == text.count("]") else "(<"
    opened: list[str] = []
    kept: list[str] = []
    hidden = iter(operators)
    for character in text:
        if character == "\0":
            operator = next(hidden, "")
            kept += [] if opened else [operator]
        elif character in brackets:
            if character == "(" and not opened and "".join(kept).strip() not in ("", "decltype"):
                break
            opened.append(character)
        elif character in _PAIRS:
            if _PAIRS[character] in opened and (character != ">" or opened[-1] == "<"):
                while opened.pop() != _PAIRS[character]:
                    pass
        elif not opened:
            kept.append(character)
    return "".join(kept).strip().rpartition("::")[2].rpartition(" ")[2] or demangled

"""A rule: its condition, and the function that finds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.features.explain.evidence import Evidence

Said: TypeAlias = "tuple[str, str] | None"
"""Fact and next step; None if the rule does not hold or cannot tell."""


@dataclass(frozen=True)
class Rule:
    """One possible problem of a kernel, or of a call that launches several."""

    code: str
    """Stays the same from version to version."""
    when: str
    """Condition, with `{}` for the threshold."""
    threshold: float
    source: str
    """Source of the threshold."""
    says: Callable[[Evidence, float], Said]

    @property
    def condition(self) -> str:
        """Condition with the threshold."""
        return self.when.format(f"{self.threshold:g}")


class Rules(list[Rule]):
    """The rules of one module, the most important first."""

    def row(
        self, code: str, when: str, threshold: float, source: str
    ) -> Callable[[Callable[[Evidence, float], Said]], Callable[[Evidence, float], Said]]:
        """Add the function below as a rule."""

        def add(says: Callable[[Evidence, float], Said]) -> Callable[[Evidence, float], Said]:
            self.append(Rule(code, when, threshold, source, says))
            return says

        return add

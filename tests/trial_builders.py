"""Plans of trials."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from pytest_gpuperf.features.trial.record import TrialCase, TrialPlan

PLAN = TrialPlan(
    problem="p.py",
    solution="s.py",
    form="gpu-mode",
    cases=(),
    seed=1,
    seeds=1,
    rounds=1,
    budget_s=0.1,
    mode="auto",
)


def plan(*cases: TrialCase | str, **given: Any) -> TrialPlan:
    """Return a short plan of these cases, which may be only names."""
    known = (TrialCase(name=case) if isinstance(case, str) else case for case in cases)
    return structs.replace(PLAN, cases=tuple(known), **given)

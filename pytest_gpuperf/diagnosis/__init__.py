"""From a profile to a verdict in words: what bounds a kernel, why, and what to try next."""

from __future__ import annotations

from pytest_gpuperf.diagnosis.changes import change_lines
from pytest_gpuperf.diagnosis.explain import diagnose_call, explain_lines
from pytest_gpuperf.diagnosis.rules import RULES, Diagnosis, diagnose

__all__ = ["RULES", "Diagnosis", "change_lines", "diagnose", "diagnose_call", "explain_lines"]

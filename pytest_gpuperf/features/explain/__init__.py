"""Diagnosis of a kernel or call: its bound, the causes, and what to try next."""

from __future__ import annotations

from pytest_gpuperf.features.explain.diagnosis import Turned, diagnose_call, explain_lines, turned
from pytest_gpuperf.features.explain.rules import RULES, Diagnosis, diagnose

__all__ = ["RULES", "Diagnosis", "Turned", "diagnose", "diagnose_call", "explain_lines", "turned"]

"""Results of ncu rules."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

Kind = Literal["optimization", "information", "warning", "error"]
Scope = Literal["global", "local", ""]


class RuleResult(msgspec.Struct, frozen=True, kw_only=True):
    """One result of an ncu rule for one launch."""

    rule: str
    """Identifier of the rule, such as `CPIStall`."""
    section: str = ""
    """Identifier of its section, such as `WarpStateStats`."""
    title: str = ""
    """Result in two or three words, or the name of the rule; empty in CSV."""
    kind: Kind = "information"
    message: str
    estimated_speedup_pct: float | None = None
    """ncu's estimate of the gain in %; None if it gives none."""
    scope: Scope = ""
    """Object of the estimate: `global` for the run time of the kernel, `local` for the efficiency of the part
    of the hardware that the rule looks at; empty without an estimate."""


_KINDS: dict[str, Kind] = {
    "MsgType_OK": "information",
    "MsgType_OPTIMIZATION": "optimization",
    "MsgType_WARNING": "warning",
    "MsgType_ERR": "error",
}
_SCOPES: dict[str, Scope] = {"SpeedupType_LOCAL": "local", "SpeedupType_GLOBAL": "global"}

# Links, as the docstring of `rule_results_as_dicts` in `ncu_report` has them: `@section:ID:text@`,
# `@sass:ADDRESS:text@`, `@source:FILE:LINE:text@` and `@url:text:ADDRESS@`.
_LINK = re.compile(r"@(?:section:[^:@]*|sass:[^:@]*|source:[^:@]*:\d+):(?P<text>[^@]*)@")
_URL = re.compile(r"@url:(?P<text>[^@]*?):(?P<address>https?://[^@]*)@")


def rules_from_report(results: Iterable[dict[str, Any]], library: Any) -> tuple[RuleResult, ...]:
    """Make rules from `rule_results_as_dicts` of a report, without those that have no message.

    Args:
        results: The dictionaries.
        library: The module `ncu_report` that made them, for its constants.
    """
    kinds = {getattr(library, name, None): kind for name, kind in _KINDS.items()}
    scopes = {getattr(library, name, None): scope for name, scope in _SCOPES.items()}
    rules = []
    for result in results:
        said, estimate = result["rule_message"], result.get("speedup_estimation", {})
        if not said["message"]:
            continue
        speedup = finite(estimate.get("speedup"))
        rules.append(
            RuleResult(
                rule=result["rule_identifier"],
                section=result["section_identifier"],
                title=said["title"] or result["name"],
                kind=kinds.get(said["type"], "information"),
                message=_plain(said["message"]),
                estimated_speedup_pct=speedup,
                scope="" if speedup is None else scopes.get(estimate.get("type"), ""),
            )
        )
    return tuple(rules)


def _plain(message: str) -> str:
    return _URL.sub(r"\g<text> (\g<address>)", _LINK.sub(r"\g<text>", message))


def finite(value: object) -> float | None:
    """Return a value as a number; None if it is not a finite one."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None

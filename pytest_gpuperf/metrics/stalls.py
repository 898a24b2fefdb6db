"""Reasons why warps wait: shares of all warp cycles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.metrics.metric import (
    EVERY_CHIP,
    Metric,
    Source,
    one,
    share,
    share_of_sum,
    since,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECTION = "WarpStateStats"

_REASONS: Mapping[str, str] = {
    "barrier": "waiting for other warps at a block barrier",
    "branch_resolving": "waiting for a branch target",
    "dispatch_stall": "held back by the dispatcher",
    "drain": "waiting after exit for memory writes to drain",
    "gmma": "waiting for warpgroup matrix operations (GH100 only)",
    "imc_miss": "waiting for a miss of the immediate constant cache (before Blackwell)",
    "lg_throttle": "waiting for room in the queue of local and global memory",
    "long_scoreboard": "waiting for data from L1, L2 or DRAM",
    "math_pipe_throttle": "waiting for a busy arithmetic pipe",
    "membar": "waiting at a memory barrier",
    "mio_throttle": "waiting for room in the queue of shared memory and special functions",
    "misc": "waiting for any other reason",
    "no_instruction": "waiting for an instruction to be fetched",
    "not_selected": "ready, but another warp was issued",
    "short_scoreboard": "waiting for data from shared memory or special functions",
    "sleeping": "asleep in nanosleep",
    "tex_throttle": "waiting for room in the texture queue",
    "wait": "waiting for the fixed latency of the previous instruction",
}
"""`selected` is left out: a warp that issues does not wait."""

_ONLY_ON = {"gmma": frozenset({"gh100"}), "imc_miss": EVERY_CHIP - since("gb100")}

_WARP_LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"
_WHOLE = ("smsp__average_warps_active_per_issue_active.ratio", _WARP_LATENCY)
"""Warps per issued instruction over all reasons, under both of its names; each reason is a share of it."""


def _ratio(reason: str) -> str:
    return f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"


_COMMON = tuple(_ratio(reason) for reason in (*_REASONS, "selected") if reason not in _ONLY_ON)
_ALL = ((*_COMMON, _ratio("imc_miss"), _ratio("gmma")), (*_COMMON, _ratio("imc_miss")), _COMMON)
"""Sets of reasons that chips have. A sum over fewer reasons would make every share too large."""


def _share_of_cycles(reason: str, activity: str) -> Metric:
    name, chips = _ratio(reason), _ONLY_ON.get(reason, EVERY_CHIP)
    return Metric(
        f"stall.{reason}",
        "%",
        f"share of all warp cycles spent {activity}",
        (
            *(Source((name, whole), share, chips) for whole in _WHOLE),
            *(Source((name, *names), share_of_sum, requested=False) for names in _ALL if name in names),
        ),
        section=_SECTION,
        weight=("instructions", "warp_cycles_per_instruction"),
        presets=("default", "stalls"),
    )


STALLS = (
    Metric(
        "warp_cycles_per_instruction",
        "cycle",
        "cycles of a warp for each instruction issued",
        one(_WARP_LATENCY),
        section=_SECTION,
        better="lower",
        presets=("default", "stalls"),
    ),
    *(_share_of_cycles(reason, activity) for reason, activity in _REASONS.items()),
)

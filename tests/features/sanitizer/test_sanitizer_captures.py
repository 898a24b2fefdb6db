"""compute-sanitizer's logs of planted errors on an H200."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from pytest_gpuperf.features.sanitizer.hit_assignment import HitsByTest, assign
from pytest_gpuperf.features.sanitizer.log_reader import read_log
from pytest_gpuperf.records import SanitizerResult
from pytest_gpuperf.records.passes import PassFolder
from pytest_gpuperf.records.sanitizer_error_texts import errors_of

CAPTURES = Path(__file__).parents[2] / "data" / "captures" / "sanitizer"


def assigned(tool: str) -> HitsByTest:
    folder = CAPTURES / tool
    marks = [event for event in PassFolder(folder).events() if event.range]
    with gzip.open(folder / "sanitizer.log.gz", "rt", encoding="utf-8") as lines:
        return assign(marks, read_log(lines))


@pytest.mark.parametrize(
    ("tool", "wrong", "right"),
    [
        ("memcheck", {"test_out_of_bounds": 28, "test_trap": 32}, {"test_before"}),
        ("racecheck", {"test_race": 2048}, {"test_before", "test_barrier", "test_after"}),
        ("initcheck", {"test_unwritten": 1000}, {"test_before", "test_after"}),
        ("synccheck", {"test_divergent": 256}, {"test_before", "test_after"}),
    ],
)
def test_each_error_belongs_to_its_planted_test(tool: str, wrong: dict[str, int], right: set[str]) -> None:
    found = assigned(tool)
    assert {nodeid.partition("::")[2]: hits.count for nodeid, hits in found.hits.items()} == wrong
    assert found.settled == {f"test_k.py::{test}" for test in wrong.keys() | right}


def test_errors_name_place_thread_address_and_call() -> None:
    lines = [
        line
        for tool in ("memcheck", "racecheck", "initcheck", "synccheck")
        for hits in assigned(tool).hits.values()
        for line in errors_of(SanitizerResult(tool=tool, hits=hits.first(5), count=hits.count))
    ]
    assert "\n".join(lines) == snapshot("""\
memcheck: Invalid __global__ write of size 4 bytes in scale_kernel (test_k.py:11) by thread (100,0,0) in block (0,0,0)
address 0x7f0ab6812390 is out of bounds and is 1 bytes after the nearest allocation at 0x7f0ab6812200 of size 400 bytes
28 of this kind at this place
launched by the call labelled 'wrong'
memcheck: Trace/breakpoint trap in trap_kernel (+0x20) by thread (0,0,0) in block (0,0,0)
32 of this kind at this place
racecheck: Potential RAW hazard in __shared__ memory in racing_kernel (+0xe0, +0xf0) by threads (31,0,0) and (224,0,0) in block (0,0,0)
address 0x47c, Current Value : 0
1,664 of this kind at this place
racecheck: Potential WAR hazard in __shared__ memory in racing_kernel (+0xf0, +0xe0) by threads (95,0,0) and (160,0,0) in block (1,0,0)
address 0x680, Current Value : 0, Incoming Value : 0
384 of this kind at this place
initcheck: Uninitialized __global__ memory read of size 4 bytes in scale_kernel (test_k.py:7) by thread (96,0,0) in block (4,0,0)
address 0x7f0b10810980
1,000 of this kind at this place
synccheck: Barrier error detected. Divergent thread(s) in warp in divergent_kernel (+0x80) by thread (33,0,0) in block (0,0,0)
256 of this kind at this place\
""")  # noqa: E501
    assert "Target application returned an error" in assigned("memcheck").words

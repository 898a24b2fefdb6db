"""The zoo's tables from made-up results, its lane with made-up children, and its judgement of callables."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import torch
from msgspec.structs import replace

from benchmarks import results_file
from benchmarks.children import Child, ChildError
from benchmarks.zoo.__main__ import Lane, plan, shard
from benchmarks.zoo.cases import Animal, tensors_in
from benchmarks.zoo.child import Bench, Order, tries
from benchmarks.zoo.results import (
    Results,
    Tried,
    absent_table,
    exceptions,
    kinds_table,
    passes,
    read,
    reasons_table,
    report,
    summary,
)
from benchmarks.zoo.turns import Turns
from benchmarks.zoo.typed_operators import Honest
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.verification.cupti_records import Audit, UncontainedError
from run_builders import one_test, timing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_gpuperf.records import TimingMode

GOOD = Tried(
    name="square",
    kind="operators",
    asked="hot",
    fate="timed",
    mode="hot",
    source="events",
    time_us=20.3,
    busy_us=20.0,
    launches=1,
    gap_us=0.25,
)


def results(*tried: Tried, **more: Any) -> Results:
    environment = one_test().environment
    return Results(schema=1, date="2026-11-27T04:00:00+00:00", environment=environment, tried=tried, **more)


@pytest.mark.parametrize(
    ("time_us", "busy_us", "is_within"),
    [
        (10.5, 10.0, True),
        (10.6, 10.0, False),
        (101.9, 100.0, True),
        (102.4, 100.0, False),
        (9.0, None, False),
    ],
)
def test_time_is_near_the_records_and_their_gaps(
    time_us: float, busy_us: float | None, is_within: bool
) -> None:
    assert replace(GOOD, time_us=time_us, busy_us=busy_us).is_within == is_within


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"busy_us": None}, "no records"),
        ({"held_back": True}, "power limit"),
        ({"spread_pct": 3.0}, "spread"),
        ({"time_us": 15.0}, "shorter than the records"),
        ({"time_us": 23.0, "launches": 4}, "longer gaps"),
        ({"time_us": 20.1, "launches": 9}, "shorter gaps"),
        ({"time_us": 40.0}, "not known"),
    ],
)
def test_time_outside_has_a_reason(changes: dict[str, Any], why: str) -> None:
    assert why in replace(GOOD, **changes).why


def test_summary_counts_refusals_and_repeated_times() -> None:
    text = summary(
        results(
            GOOD,
            replace(GOOD, run="again", time_us=20.5),
            replace(GOOD, run="alone", time_us=25.0),
            replace(GOOD, asked="auto", time_us=20.4),
            replace(GOOD, name="sort", fate="refused", message="found it"),
            replace(GOOD, name="sort", doubt="its output is random"),
            replace(GOOD, environment="no caching"),
            absent={"peer": "needs 2 GPUs", "apart": "needs 2 GPUs"},
            not_run=("topk",),
        )
    )
    assert "Not made here: `apart`, `peer` (needs 2 GPUs)." in text
    assert "2 callables of 1 kinds: 1 refused, 0 crashed; 3 times, 1 of them doubted" in text
    assert "2 of 2 times are the same once more" in text
    assert "0 of 1 times are the same alone" in text
    assert "1 of them with no caching: 0 refused, 0 crashed; 1 times, 0 doubted; 100.0 % within." in text
    assert "No time was left for 1 runs of callables" in text


def test_time_alone_in_another_mode_is_another_time() -> None:
    first = replace(GOOD, asked="auto", time_us=20.0)
    found = results(first, replace(first, run="alone", mode="kernels", source="cupti", time_us=15.0))
    assert "0 of 1 times are the same alone" in summary(found)
    assert "`square` (alone): 15.00 µs (kernels by cupti) after 20.00 µs (hot by events)" in exceptions(found)


def test_kind_has_a_row_of_the_usual_environment_only() -> None:
    text = kinds_table(results(GOOD, replace(GOOD, environment="no caching", fate="crashed")))
    assert "|operators|1|1|0|0|0|0|0|0|1|100.0|" in text


def test_run_passes_without_refusals_and_with_nine_in_ten_times() -> None:
    wrong = replace(GOOD, time_us=40.0)
    assert passes(results(*[GOOD] * 9, wrong))
    assert not passes(results(*[GOOD] * 8, wrong))
    assert not passes(results(GOOD, replace(GOOD, environment="no caching", fate="refused")))


def test_reasons_and_exceptions_name_times_outside() -> None:
    found = results(GOOD, replace(GOOD, name="slow", time_us=40.0), replace(GOOD, run="again", time_us=21.0))
    assert "|not known|1|" in reasons_table(found)
    listed = exceptions(found)
    assert "`square` (hot): doubted: single calls" in exceptions(results(replace(GOOD, doubt="single calls")))
    assert "`slow` (hot): 40.00 µs for 20.25 (hot by events, 1 launches)" in listed
    assert "`square` (again): 21.00 µs (hot by events) after 20.30 µs (hot by events)" in listed


def test_absent_libraries_are_named() -> None:
    text = absent_table(results(absent={"a": "No module named 'x'", "b": "No module named 'x'"}))
    assert "|No module named 'x'|`a`, `b`|" in text


def test_shards_of_one_commit_are_put_together(tmp_path: Path) -> None:
    left = results(GOOD, absent={"a": "x", "sort": "needs 2 GPUs"}, not_run=("sort", "sort, alone"))
    parts = [left, results(replace(GOOD, name="sort"), not_run=("b",))]
    paths = [tmp_path / "1.json", tmp_path / "2.json"]
    for path, part in zip(paths, parts, strict=True):
        path.write_bytes(results_file.encode(part))
    joined = read(paths)
    assert [one.name for one in joined.tried] == ["square", "sort"]
    assert (joined.absent, joined.not_run) == ({"a": "x"}, ("sort, alone", "b"))
    assert "2 callables" in report(joined)
    other = replace(parts[1].environment, commit="b" * 40)
    paths[1].write_bytes(results_file.encode(replace(parts[1], environment=other)))
    with pytest.raises(SystemExit, match="several commits"):
        read(paths)


def test_shards_have_all_names_once() -> None:
    names = [*"abcdefg"]
    assert sorted(shard(names, "1/3") + shard(names, "2/3") + shard(names, "3/3")) == names
    with pytest.raises(ValueError, match="I/N"):
        shard(names, "4/3")


def test_plan_ends_with_each_alone_and_other_environments() -> None:
    steps = [*plan(["a", "b"], ("hot", "auto"), ("usual", "no caching"), ("first", "alone"))]
    assert steps[0] == ([Order(one, ("check", "hot", "auto", "again")) for one in "ab"], "first", "usual")
    assert steps[1] == ([Order(one, ("auto",), recorded=False) for one in "ab"], "alone", "usual")
    assert steps[2] == ([Order(one, ("check", "auto")) for one in "ab"], "first", "no caching")
    assert [run for _, run, _ in plan(["a"], ("hot",), ("usual",), ("alone",))] == ["alone"]


class FakeChild:
    """Plays messages; an exception among them ends it."""

    def __init__(self, *messages: object) -> None:
        self._messages = [{"gap_us": 0.2}, *messages]
        self.told: list[Any] = []

    def begin(self) -> None: ...

    def tell(self, message: object) -> None:
        self.told.append(message)

    def hear(self, _: float) -> Any:
        message = self._messages.pop(0)
        if isinstance(message, Exception):
            raise message
        return message

    def stop(self) -> None: ...


def tried(name: str, asked: str) -> dict[str, Any]:
    return {"tried": {"name": name, "kind": "k", "asked": asked, "fate": "checked"}}


def carried_out(
    children: list[FakeChild], orders: list[Order], seconds: float = 60.0
) -> tuple[Lane, list[Tried]]:
    found: list[Tried] = []
    animals = {name: Animal(name, "k", cast("Any", None), cuda=False, gpus=1) for name in "ab"}
    start = cast("Callable[..., Child]", lambda *_, **__: children.pop(0))
    lane = Lane(animals, ["0.05", "auto"], time.monotonic() + seconds, found.append, 1, start)
    lane.run(orders, "first", "no caching")
    return lane, found


def test_crash_in_a_mode_leaves_the_others() -> None:
    last = FakeChild({"begins": "auto"}, tried("a", "auto"), {"done": "a"}, {"absent": "no x"}, {"done": "b"})
    first = FakeChild(
        {"begins": "hot"}, tried("a", "hot"), {"begins": "cold"}, ChildError("ended with status -11")
    )
    orders = [Order("a", ("hot", "cold", "auto")), Order("b", ("hot",))]
    lane, found = carried_out([first, last], orders)
    assert [(one.asked, one.fate) for one in found] == [
        ("hot", "checked"),
        ("cold", "crashed"),
        ("auto", "checked"),
    ]
    assert found[1].message == "ended with status -11"
    assert {one.environment for one in found} == {"no caching"}
    assert [*last.told[0]["asked"]] == ["auto"]
    assert lane.absent == {"b": "no x"}


def test_process_that_ends_between_steps_is_replaced_without_an_accusation() -> None:
    first = FakeChild({"begins": "hot"}, tried("a", "hot"), ChildError("ended with status 1"))
    last = FakeChild({"begins": "hot"}, tried("b", "hot"), {"done": "b"})
    _, found = carried_out([first, last], [Order("a", ("hot",)), Order("b", ("hot",))])
    assert [(one.name, one.fate) for one in found] == [("a", "checked"), ("b", "checked")]


@pytest.mark.parametrize(
    ("modes", "asked"),
    [(("hot", "hot"), ["hot", "auto"]), (("hot", "kernels"), ["hot", "auto", "again"])],
)
def test_only_a_mode_with_one_time_is_timed_again(modes: tuple[TimingMode, ...], asked: list[str]) -> None:
    of = dict(zip(("hot", "auto"), modes, strict=True))
    bench = SimpleNamespace(
        time=lambda _, asked: replace(timing(), mode=of[asked]), reference=lambda *_: (1.0, 1), gap_us=0.1
    )
    animal = Animal("a", "k", cast("Any", None), cuda=False, gpus=1)
    parent = cast("Any", SimpleNamespace(tell=lambda _: None))
    order = Order("a", ("check", "hot", "auto", "again"))
    found = [*tries(cast("Bench", bench), animal, Honest(list, ()), order, parent, Turns())]
    assert [one.asked for one in found] == asked
    assert [one.run == "again" for one in found] == [one == "again" for one in asked]


def test_callables_after_the_end_are_named() -> None:
    lane, found = carried_out([], [Order("a", ("hot",)), Order("b", ("hot",))], seconds=-1.0)
    assert (lane.not_run, found) == (["a, no caching", "b, no caching"], [])


def test_processes_time_in_turn_and_a_dead_one_lets_others_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    log, found = tmp_path / "log", list[Tried]()
    names = [*"abcdef", "killed"]
    animals = {name: Animal(name, "k", cast("Any", None), cuda=False, gpus=1) for name in names}

    def start(_: str, arguments: list[str], environment: dict[str, str]) -> Child:
        return Child("fake_children:take_turns_alone", [str(log), *arguments], environment=environment)

    end = time.monotonic() + 60
    lane = Lane(animals, [], end, found.append, 3, cast("Callable[..., Child]", start))
    lane.run([Order(name, ("auto",)) for name in names], "alone")
    assert sorted((one.name, one.fate, one.run) for one in found) == [
        *((name, "checked", "alone") for name in "abcdef"),
        ("killed", "crashed", "alone"),
    ]
    said = [line.split() for line in log.read_text().splitlines()]
    # Nobody else prepares or times between the begin and the end of a time.
    begun = [at for at, (_, what) in enumerate(said) if what == "begins"]
    assert len(begun) == 6
    assert all(said[at + 1] == [said[at][0], "ends"] for at in begun)


def test_child_that_does_not_start_ends_the_run() -> None:
    child = FakeChild()
    child._messages = [ChildError("no GPU")]
    with pytest.raises(SystemExit, match="did not start: no GPU"):
        carried_out([child], [Order("a", ("hot",))])


def test_process_that_does_not_start_later_is_a_crash() -> None:
    child, dead = FakeChild({"begins": "hot"}, ChildError("killed")), FakeChild()
    dead._messages = [ChildError("no memory")]
    lane, found = carried_out([child, dead], [Order("a", ("hot",)), Order("b", ("hot",))])
    assert [(one.name, one.asked, one.message) for one in found] == [
        ("a", "hot", "killed"),
        ("b", "start", "no memory"),
    ]
    assert lane.not_run == ["b, no caching"]


def raised(error: Exception, *, also_alone: bool = False) -> list[Tried]:
    """Return the results of a timing that raises an exception."""

    def fn() -> None:
        if also_alone:
            raise error

    def fail(*_: object) -> Iterator[None]:
        raise error

    bench = cast("Bench", SimpleNamespace(time=fail, check=fail))
    animal = Animal("a", "k", cast("Any", None), cuda=False, gpus=1)
    parent = cast("Any", SimpleNamespace(tell=lambda _: None))
    return [*tries(bench, animal, Honest(fn, ()), Order("a", ("check", "hot")), parent, Turns())]


@pytest.mark.parametrize(
    ("error", "also_alone", "fate"),
    [
        (GpuperfError("the time is refused: 3 launches came late"), False, "refused"),
        (GpuperfError("mode 'hot' needs a callable that a CUDA graph can capture"), False, "other mode"),
        (UncontainedError(Audit(2, 0, 5, 0, 0, 2).uncontained(1)), False, "other mode"),
        (RuntimeError("CUDA error"), False, "crashed"),
        (RuntimeError("no kernel image"), True, "broken"),
    ],
)
def test_exception_of_a_timing_is_judged(error: Exception, also_alone: bool, fate: str) -> None:
    found = raised(error, also_alone=also_alone)
    assert [(one.asked, one.fate) for one in found] == [("hot", fate)]


def test_failed_check_is_refused() -> None:
    bench = cast("Bench", SimpleNamespace(check=lambda _: "\noutput differs\nmore"))
    animal = Animal("a", "k", cast("Any", None), cuda=False, gpus=1)
    one = Honest(torch.square, (torch.ones(2),), torch.square)
    parent = cast("Any", SimpleNamespace(tell=lambda _: None))
    (found,) = tries(bench, animal, one, Order("a", ("check",)), parent, Turns())
    assert (found.fate, found.message) == ("refused", "output differs")


def test_tensors_in_containers_are_found() -> None:
    x = torch.ones(2)
    assert len([*tensors_in({"a": [x, (x, None)], "b": 3})]) == 2

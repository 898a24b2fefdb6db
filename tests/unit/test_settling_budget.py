"""The time that a card may spend on settling, by a clock that only the tests and the engine move."""

from __future__ import annotations

from importlib.util import find_spec
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from msgspec.structs import replace

from pytest_gpuperf.against.blocks import SideBlock
from pytest_gpuperf.against.engine import OutOfTimeError
from pytest_gpuperf.against.git import Commit, Repository
from pytest_gpuperf.against.restart_series import Series
from pytest_gpuperf.compat.compiler_names import INDUCTOR
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records import Fingerprint, Measurement, Toolchain
from pytest_gpuperf.records.passes import Invocation
from pytest_gpuperf.records.timing import CompilerWork, FirstCall
from pytest_gpuperf.session import settling
from pytest_gpuperf.session.marker import ItemState, Marker
from pytest_gpuperf.session.progress import Display, News
from run_builders import timing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pytest_gpuperf.against.engine import TimedTest

FIRST_S = 25.0
NEXT_S = 9.0
"""Seconds that a session takes longer by its first suspect and by each further one, on an H100."""
OLD = Commit("main", "a" * 40)
BLOCKS = tuple(SideBlock(side, 10.0 + 2.0 * (side == "B"), 1980.0) for side in ("A", "B", "B", "A") * 3)


class Clock:
    """Time that passes on request."""

    now = 0.0

    def __init__(self) -> None:
        self.first_call: FirstCall | None = None
        self.imports: list[Sequence[str]] = []
        self.failure: GpuperfError | None = None
        self.spent = ""
        self.reasons: list[str] = []

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()

    class Engine:
        built_s = 0.0
        setups_s: ClassVar[list[float]] = []
        cost_s = FIRST_S

        def __init__(self, *_: object) -> None: ...

        def fresh(self, *_: object) -> tuple[dict[str, Any], str]:
            if made.spent:
                raise OutOfTimeError(made.spent)
            return {}, "not tried"

        def compare(
            self, test: TimedTest, _r: object, _c: object, tick: Callable[[str], None]
        ) -> dict[str, Series]:
            made.now += self.cost_s
            made.imports.append(test.imports)
            self.cost_s = NEXT_S
            if made.failure is not None:
                raise made.failure
            tick("restart 2 of at most 10")
            series = Series(reason=made.spent)
            for new_first in (False, True):
                series.add(BLOCKS, "hot", new_first=new_first)
            series.judge(0.0, final=False)
            return dict.fromkeys(test.calls, series)

    monkeypatch.setattr(settling, "_free_memory", lambda _: None)
    monkeypatch.setattr(settling, "time", made)
    monkeypatch.setattr(settling, "Engine", Engine)
    monkeypatch.setattr(settling.Settler, "_old_code", lambda *_: ((OLD,), ""))
    return made


def settled(
    root: Path,
    clock: Clock,
    suspects: int,
    *,
    test_s: float,
    settle_s: float | None = None,
    against: settling.Against | None = None,
) -> int:
    """Run 100 tests, of which the last ones are suspects; return how many of these are settled in turn."""
    settings = SimpleNamespace(root=root, settle_s=settle_s, budget_s=1.0, build="")
    gpu = SimpleNamespace(compute_capability="9.0", slug="x")
    environment: Any = SimpleNamespace(gpu=gpu, toolchain=Toolchain())
    judge: Any = SimpleNamespace(
        settings=settings,
        environment=environment,
        expected=SimpleNamespace(of=lambda _: None, runs=lambda _: {}),
        tolerance_pct=lambda _: 0.0,
    )
    invocation = Invocation([], root, root)
    settler = settling.Settler(judge, invocation, root, Display(News()), against)
    found = 0
    for number in range(100):
        clock.now += test_s
        if number >= 100 - suspects:
            timed = replace(timing(12.0), first_call=clock.first_call)
            measured = Measurement(call=Fingerprint(mode="hot"), timing=timed)
            state = ItemState(f"test_k.py::test_{number}", Marker(), measurements={"main": measured})
            one = settler.settle(state, ["main"])["main"].settlement
            assert one is not None
            clock.reasons.append(one.reason)
            found += one.how == "in turn"
    return found


def test_ten_suspects_of_a_hundred_tests_are_settled_by_default(tmp_path: Path, clock: Clock) -> None:
    assert settled(tmp_path, clock, 10, test_s=0.1) == 10


def test_a_long_run_may_settle_for_twice_its_own_time(tmp_path: Path, clock: Clock) -> None:
    assert settled(tmp_path, clock, 50, test_s=4.0) == 50


def test_accidents_end_at_the_limit(tmp_path: Path, clock: Clock) -> None:
    assert settled(tmp_path, clock, 100, test_s=0.1) == 1 + (300 - FIRST_S) // NEXT_S


def test_spent_time_is_named_once(tmp_path: Path, clock: Clock) -> None:
    """Spend it after another label of the test was decided: the engine and its next step both say so."""
    clock.spent = "no time is left"
    settled(tmp_path, clock, 1, test_s=0.1)
    assert clock.reasons == [clock.spent]


@pytest.mark.parametrize(("settle_s", "compared"), [(None, 100), (0.0, 100), (30.0, 1)])
def test_a_comparison_of_all_tests_is_no_accident(
    tmp_path: Path, clock: Clock, settle_s: float | None, compared: int
) -> None:
    against = settling.Against(Repository(tmp_path), OLD)
    assert settled(tmp_path, clock, 100, test_s=0.1, settle_s=settle_s, against=against) == compared


def test_old_code_that_cannot_be_made_is_tried_once(tmp_path: Path, clock: Clock) -> None:
    clock.failure = GpuperfError("gpuperf_build ended with exit status 1 for old code")
    assert settled(tmp_path, clock, 3, test_s=0.1) == 0
    assert len(clock.imports) == 1


@pytest.mark.parametrize(
    ("compilers", "imports"), [(None, ()), (("triton",), ()), (("triton", "inductor"), INDUCTOR)]
)
def test_sides_import_inductor_if_it_worked_in_the_run(
    tmp_path: Path, clock: Clock, compilers: Sequence[str] | None, imports: Sequence[str]
) -> None:
    if compilers is not None:
        clock.first_call = FirstCall(seconds=2.0, compilers={name: CompilerWork() for name in compilers})
    settled(tmp_path, clock, 1, test_s=0.1)
    assert clock.imports == [imports]
    assert all(map(find_spec, INDUCTOR))


def test_a_limit_of_the_user_counts(tmp_path: Path, clock: Clock) -> None:
    assert settled(tmp_path, clock, 10, test_s=4.0, settle_s=30.0) == 1

"""Settle suspects: time old and new code in turn right after the test, or new code in fresh processes."""

from __future__ import annotations

import gc
import math
import sys
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from pytest_gpuperf.against.engine import Engine, OutOfTimeError, TimedTest
from pytest_gpuperf.against.git import Commit, Repository
from pytest_gpuperf.against.interpreter import PREFIX, changes, check_plugin, installed, parse
from pytest_gpuperf.compat.compiler_names import INDUCTOR
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.times import PACKAGES, OneClock
from pytest_gpuperf.processes.signals import ended_in_order
from pytest_gpuperf.records import AgainstTiming, Settlement
from pytest_gpuperf.records.baseline import RunNote, suite_of
from pytest_gpuperf.records.files import show_path
from pytest_gpuperf.records.kernel_code import compare_code
from pytest_gpuperf.records.settlement import is_out_of_memory
from pytest_gpuperf.statistics.decision import Outcome, trimmed_mean
from pytest_gpuperf.statistics.thresholds import FRESH

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_gpuperf.against.blocks import SideBlock
    from pytest_gpuperf.against.engine import Tick
    from pytest_gpuperf.against.restart_series import Series
    from pytest_gpuperf.records import LaunchedCode, Measurement
    from pytest_gpuperf.records.baseline import MeasurementBaseline
    from pytest_gpuperf.records.passes import Invocation
    from pytest_gpuperf.session.judge import Judge
    from pytest_gpuperf.session.marker import ItemState
    from pytest_gpuperf.session.progress import Display
    from pytest_gpuperf.settings.settings import Settings

Known: TypeAlias = "Mapping[str, MeasurementBaseline]"
"""The baseline of a test, by label."""
LEAST_S = 300.0
"""Seconds that a card may spend on settling in any case, by default."""
SHARE = 2.0
"""The same as a multiple of the time that the tests themselves have taken."""


@dataclass(frozen=True)
class Against:
    """The commit or the environment that `--gpuperf-against` names."""

    repository: Repository | None
    """None outside of git, where an environment can be named alone."""
    commit: Commit
    notice: str = ""
    """Packages whose versions differ in another environment; empty for that of the run."""

    @classmethod
    def of(cls, settings: Settings) -> Against | None:
        """Find the commit, or the environment; None if the option names none.

        Raises:
            GpuperfError: There is no such commit, or no git; or the tests cannot run in that environment.
        """
        if not settings.against:
            return None
        program, ref = parse(settings.against)
        try:
            repository = Repository.around(settings.root)
        except GpuperfError:
            if ref:
                raise
            repository = None
        commit = repository.commit(ref) if repository is not None and ref else None
        if program is None:
            assert commit is not None
            return cls(repository, commit)
        old = installed(program)
        check_plugin(program, old)
        differs = changes(old, installed(Path(sys.executable)))
        name = f"{PREFIX}{Path(old.prefix).name}"
        named = Commit(f"{name}@{ref}" if ref else name, commit.id if commit is not None else "", program)
        return cls(repository, named, f"{name}: {', '.join(differs) or 'no package differs'}")


class Settler:
    """Settles the suspects of the tests of one card; its processes stay warm from the first on.

    Args:
        judge: Has the options, the environment and the baselines.
        invocation: The command that started pytest.
        logs: Folder for the output of the processes.
        display: Shows the progress.
        against: The commit that `--gpuperf-against` names; None to compare with that of the baseline.
        is_last: False if a test for which memory is short is settled again later.

    Raises:
        GpuperfError: `--gpuperf-against` was given outside of the checkout.
    """

    def __init__(
        self,
        judge: Judge,
        invocation: Invocation,
        logs: Path,
        display: Display,
        against: Against | None = None,
        *,
        is_last: bool = False,
    ) -> None:
        settings = judge.settings
        self._judge = judge
        self._expected = judge.expected
        self._show = display.show
        self._against = against
        self._is_last = is_last
        self._asked_s = settings.settle_s
        self._no_git, root = "", settings.root.resolve()
        self._repository: Repository | None = None
        try:
            found = against.repository if against is not None else Repository.around(root)
            root = found.root if found is not None else root
            if found is not None and not invocation.cwd.resolve().is_relative_to(root):
                raise GpuperfError(
                    "pytest was started outside the checkout, but old code has to run the same command",
                    next_step=f"type it in {show_path(root)}",
                )
            self._repository = found
        except GpuperfError as error:
            if against is not None:
                raise
            self._no_git = str(error)
        capability = judge.environment.gpu.compute_capability
        self._engine = Engine(
            root, invocation, logs, settings.budget_s, settings.build, capability, display.progress
        )
        self._began = time.monotonic()
        self._spent_s = 0.0
        self.settlements: dict[tuple[str, str], Settlement] = {}
        """The settlements so far, by test and label."""
        self._failed: dict[Commit, str] = {}
        """Why old code cannot be made, such as a build that failed: not tried again for the next suspect."""
        self._codes: dict[tuple[Path, str], Commit | str] = {}
        """Code of the sessions by baseline file and run: git takes tenths of a second for each."""

    def close(self) -> None:
        """End the processes, and remove the old code."""
        self._engine.close()

    @property
    def notices(self) -> list[str]:
        """What was settled, and other facts that a reader of the results should know."""
        # One for which memory was short is settled again.
        settled = [one for one in self.settlements.values() if self._is_last or not one.lacks_memory]
        if not settled or self._against is not None:
            return self._engine.notices
        hows = Counter(one.how for one in settled).most_common()
        each = ", ".join(f"{count} {how}" for how, count in hows)
        suspects = "1 suspect" if len(settled) == 1 else f"{len(settled)} suspects"
        return [f"{suspects} settled in {self._spent_s:.0f} s: {each}", *self._engine.notices]

    def settle(self, state: ItemState, suspects: Sequence[str]) -> dict[str, Measurement]:
        """Settle the suspects of a test that has returned.

        Args:
            state: The test.
            suspects: Labels with a time outside of the screen.

        Returns:
            The measurements of the test, those of suspects with their settlements.
        """
        baseline = self._expected.of(state.nodeid)
        known = baseline.measurements if baseline is not None else {}
        groups: dict[tuple[tuple[Commit, ...], str], list[str]] = {}
        for label in suspects:
            old = self._old_code(state.nodeid, _runs(known.get(label)))
            groups.setdefault(old, []).append(label)
        for (commits, why), labels in groups.items():
            begin, built_s = time.monotonic(), self._engine.built_s
            self._engine.setups_s.clear()
            with ended_in_order(), self._closed_on_error():
                _free_memory(state)
                found = self._group(state, commits, why, labels, known)
            seconds = time.monotonic() - begin
            self._spent_s += seconds - (self._engine.built_s - built_s)
            each_s, setup_s = seconds / len(labels), fmean(self._engine.setups_s or [0.0])
            for label, settlement in found.items():
                sessions = _runs(known.get(label)) if self._against is None else ()
                self.settlements[state.nodeid, label] = replace(
                    settlement, sessions=sessions, seconds=round(each_s, 1), setup_s=round(setup_s, 1)
                )
        measured = dict(state.measurements)
        for label in suspects:
            measured[label] = replace(measured[label], settlement=self.settlements[state.nodeid, label])
        return measured

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        """End the line of the progress; leave no process and no old code behind if the run ends here."""
        try:
            yield
        except BaseException:
            self.close()
            raise
        finally:
            self._show("")

    def _old_code(self, nodeid: str, runs: tuple[str, ...]) -> tuple[tuple[Commit, ...], str]:
        """Return the old code of the oldest and of the newest session, or why there is none."""
        if self._against is not None:
            return (self._against.commit,), ""
        found = [self._code_of(nodeid, run) for run in dict.fromkeys((*runs[:1], *runs[-1:]))]
        commits = dict.fromkeys(one for one in found if isinstance(one, Commit))
        return tuple(commits), next((one for one in found if isinstance(one, str)), "")

    def _code_of(self, nodeid: str, run: str) -> Commit | str:
        """Return the code of a session, or why there is none."""
        if self._repository is None:
            return self._no_git
        store = self._expected.store
        file = store.path(self._judge.environment.gpu.slug, suite_of(nodeid))
        if (file, run) not in self._codes:
            note = self._expected.runs(nodeid).get(run, RunNote())
            try:
                self._codes[file, run] = self._repository.old_code(run, note, file)
            except GpuperfError as error:
                self._codes[file, run] = str(error)
        return self._codes[file, run]

    def _group(
        self, state: ItemState, commits: Sequence[Commit], no_commit: str, labels: Sequence[str], known: Known
    ) -> dict[str, Settlement]:
        """Settle labels that have the same old code."""
        found: dict[str, Settlement] = {}
        why = {label: self._why_never(state, state.measurements[label]) for label in labels}
        able = [label for label in labels if not why[label]]
        allowed_s = self._allowed_s()
        end, built_s = time.monotonic() + allowed_s - self._spent_s, self._engine.built_s

        def tick(text: str) -> None:
            self._show(f"{state.nodeid}: settled, {text}")
            if time.monotonic() >= end + self._engine.built_s - built_s:
                raise OutOfTimeError(f"the {allowed_s:.0f} s of gpuperf_settle_seconds are spent")

        try:
            for commit in commits:
                if missing := [label for label in able if label not in found]:
                    series, failure = self._compare(self._test(state, missing, known, commit), commit, tick)
                    for label in missing:
                        if (one := series.get(label)) is None or one.reason or not one.restarts:
                            why[label] = why[label] or failure or (one.reason if one is not None else "")
                        elif (
                            commit != commits[-1]
                            and _is_alike(one)
                            and not self._measured(state, commit, label, known.get(label))
                        ):
                            why[label] = f"{commit} need not have the code that was measured"
                        else:
                            found[label] = self._in_turn(state, label, commit, one, known, tick)
            # With memory that the run frees at its end, old code can be timed after all.
            missing = [
                label
                for label in able
                if label not in found and (self._is_last or not is_out_of_memory(why[label]))
            ]
            if self._against is None and missing:
                why |= {label: why[label] or no_commit for label in missing}
                test = self._test(state, missing, known)
                blocks, failure = self._engine.fresh(test, tick)
                for label in missing:
                    times = _fresh(state.measurements[label], known.get(label), blocks.get(label, ()))
                    if times:
                        found[label] = Settlement(how="fresh", fresh_us=times, reason=why[label])
                    elif failure not in why[label]:
                        why[label] += f"; {failure}"
        except (OutOfTimeError, GpuperfError, OSError) as error:
            for label in able:
                if label not in found and _text(error) not in why[label]:
                    why[label] = "; ".join(filter(None, [why[label], _text(error)]))
        named = self._against.commit if self._against is not None else None
        none = AgainstTiming(ref=named.ref, commit=named.id) if named is not None else None
        return {
            label: found.get(label) or Settlement(how="impossible", against=none, reason=reason)
            for label, reason in why.items()
        }

    def _why_never(self, state: ItemState, measured: Measurement) -> str:
        """Return why a label cannot be settled by any process; empty if it can."""
        if state.marker.gpus:
            return "old code is timed on one GPU only, and its ranks run on several"
        if self._asked_s == 0 and self._against is None:
            return "gpuperf_settle_seconds is 0"
        if measured.call is None:
            return "its call is not known"
        return ""

    def _compare(self, test: TimedTest, commit: Commit, tick: Tick) -> tuple[dict[str, Series], str]:
        if commit not in self._failed:
            try:
                return self._engine.compare(test, self._repository, commit, tick), ""
            except OSError as error:
                return {}, _text(error)
            except GpuperfError as error:
                self._failed[commit] = str(error)
        return {}, self._failed[commit]

    def _in_turn(
        self, state: ItemState, label: str, commit: Commit, series: Series, known: Known, tick: Tick
    ) -> Settlement:
        """Return the restarts of a label, and the times of new code in each.

        If both sides are alike and packages have changed, more processes of new code may have to confirm that
        these moved the time.
        """
        measured, stored = state.measurements[label], known.get(label)
        fresh = [[block for block in restart.blocks if block.side == "B"] for restart in series.restarts]
        if series.recorded != _is_recorded(measured):
            fresh = []
        times = stored.time if stored is not None and _is_alike(series) and self._against is None else None
        # As the judge compares them: the newest session of all may be another card's.
        packages = self._expected.origin(state.nodeid).differences(times.sessions)[0] if times else []
        if packages and len(fresh) < FRESH:
            test = self._test(state, [label], known)
            with suppress(OutOfTimeError, GpuperfError, OSError):
                more, _ = self._engine.fresh(test, tick, FRESH - len(fresh))
                fresh += map(list, more.get(label, ()))
        fresh_us = _fresh(measured, stored, fresh)
        return Settlement(how="in turn", against=series.record(commit), fresh_us=fresh_us)

    def _test(
        self, state: ItemState, labels: Sequence[str], known: Known, commit: Commit | None = None
    ) -> TimedTest:
        measured = {label: state.measurements[label] for label in labels}

        def code_differs(label: str, code: LaunchedCode) -> str:
            stored = known.get(label) if alike else None
            return "; ".join(compare_code(code, stored.code)) if stored is not None else ""

        stored_codes = [known[label] for label in labels if label in known and known[label].code is not None]
        alike = any(self._is_code_of(state.nodeid, commit, _runs(stored)) for stored in stored_codes)
        return TimedTest(
            state.nodeid,
            state.path,
            {label: one.call for label, one in measured.items() if one.call is not None},
            {label: _is_recorded(one) for label, one in measured.items()},
            INDUCTOR if any(map(_is_compiled, measured.values())) else (),
            self._judge.tolerance_pct(state),
            self._judge.environment.toolchain.driver,
            code_differs,
        )

    def _measured(
        self, state: ItemState, commit: Commit, label: str, stored: MeasurementBaseline | None
    ) -> bool:
        """Return True if a session was measured at a commit, and the run's code is not another one since.

        A commit may only have brought the session. If the code differs from the newest session's and is no
        slower than older code, both may have what made it slower.
        """
        code = state.measurements[label].code
        known = replace(stored.code, driver=code.driver) if code and stored and stored.code else None
        notes = self._expected.runs(state.nodeid).values()
        return any(note.measured(commit.id) for note in notes) and not compare_code(code, known)

    def _is_code_of(self, nodeid: str, commit: Commit | None, runs: tuple[str, ...]) -> bool:
        """Return True if a commit is the code of the newest session, compiled as then.

        A baseline has the hashes of its newest session.
        """
        if not runs or self._against is not None or self._code_of(nodeid, runs[-1]) != commit:
            return False
        before = self._expected.runs(nodeid).get(runs[-1], RunNote()).toolchain
        now = self._judge.environment.toolchain
        packages = all(before.packages.get(name, known) == known for name, known in now.packages.items())
        return packages and all(getattr(before, name) == getattr(now, name) for name in (*PACKAGES, "driver"))

    def _allowed_s(self) -> float:
        """Return the seconds for the settling of this card. To compare all tests is no accident."""
        if self._against is not None:
            return self._asked_s or math.inf
        tests_s = time.monotonic() - self._began - self._spent_s - self._engine.built_s
        return max(LEAST_S, SHARE * tests_s) if self._asked_s is None else self._asked_s


def _text(error: Exception) -> str:
    # Without the file: a record has no folders of the machine.
    return getattr(error, "strerror", None) or str(error)


def _free_memory(state: ItemState) -> None:
    """Free what the test has left: its frames are gone, but torch keeps the memory."""
    state.release()
    gc.collect()
    if (torch := sys.modules.get("torch")) is not None and hasattr(torch.cuda, "empty_cache"):
        torch.cuda.empty_cache()


def _runs(stored: MeasurementBaseline | None) -> tuple[str, ...]:
    """Return the run ids of the sessions, the oldest first."""
    time = stored.time if stored is not None else None
    return tuple(session.run for session in time.sessions) if time is not None else ()


def _is_alike(series: Series) -> bool:
    return series.decision is not None and series.decision.outcome is Outcome.PASS


def _is_recorded(measured: Measurement) -> bool:
    return measured.timing is not None and measured.timing.source == "cupti"


def _is_compiled(measured: Measurement) -> bool:
    """Return True if Inductor worked for the first call: it imports itself then, for many seconds."""
    first = measured.timing.first_call if measured.timing is not None else None
    return first is not None and "inductor" in first.compilers


def _fresh(
    measured: Measurement, stored: MeasurementBaseline | None, processes: Sequence[Sequence[SideBlock]]
) -> tuple[float, ...]:
    """Return the time of new code in each process, at the baseline's clock if its effect is known."""
    known, timing = stored.time if stored is not None else None, measured.timing
    # As the screen does, whose clock and model they are compared at.
    clock = OneClock.of(known, timing) if known and timing else None
    found: list[float] = []
    for blocks in processes:
        times = [block.time_us for block in blocks if block.time_us > 0]
        clocks = [block.sm_clock_mhz for block in blocks if block.time_us > 0]
        if times:
            if clock is not None and all(clocks):
                times = clock.blocks(times, clocks)
            found.append(round(trimmed_mean(times), 6))
    return tuple(found)

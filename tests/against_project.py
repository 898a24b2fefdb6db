"""A git project whose kernels return their times; its runs use a fake GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import msgspec
import pytest

import pytest_gpuperf
from forked import fork_children, run_forked
from pytest_gpuperf.against import engine as engine_module
from pytest_gpuperf.against import side_process
from pytest_gpuperf.against.engine import Engine, OutOfTimeError, TimedTest
from pytest_gpuperf.against.git import Repository
from pytest_gpuperf.records import AgainstTiming, Fingerprint, Run, Settlement
from pytest_gpuperf.records.passes import Invocation
from pytest_gpuperf.statistics import sequential

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_gpuperf.against.git import Commit
    from pytest_gpuperf.against.restart_series import Series

PLUGIN = Path(pytest_gpuperf.__file__).parent.parent
TESTS = Path(__file__).parent
ARGUMENTS = ("-p", "fake_gpu", "--gpuperf", "--gpuperf-counters=off", "-ogpuperf_budget=0.01")


class Project:
    """A git repository."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.temporary = root.parent / "temporary"
        self.temporary.mkdir(exist_ok=True)
        self._written = 0
        self.path: list[Path] = []
        """First folders of PYTHONPATH, before the fake GPU and the plugin."""
        self.restarts = ""
        """Number of restarts of each comparison; empty for as many as it takes to decide."""
        self.forks = False
        """Fork each run and its side processes, which spares them their imports."""
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        """Run a git command and return its output."""
        command = ["git", "-c", "user.name=n", "-c", "user.email=e@x", *arguments]
        done = subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def write(self, files: Mapping[str, str]) -> None:
        """Write files of the checkout."""
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text))
            # Python takes the code compiled from a source of the same size and second for its own.
            self._written += 1
            os.utime(path, (time.time() + self._written,) * 2)

    def commit(self, files: Mapping[str, str]) -> str:
        """Write files, commit everything and return the commit's id."""
        self.write(files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "x")
        return self.git("rev-parse", "HEAD")

    def commit_test(self, text: str) -> None:
        """Commit the file of a test."""
        self.commit({"test_k.py": text})

    def environment(self) -> dict[str, str]:
        """Return the environment of a run."""
        path = [*self.path, TESTS, PLUGIN, *filter(None, [os.environ.get("PYTHONPATH")])]
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, path)),
            "TMPDIR": str(self.temporary),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_PLUGINS": "pytest_gpuperf.plugin.entry",
            "FAKE_GPU_RESTARTS": self.restarts,
        }

    def session(
        self, *arguments: str, cwd: Path | None = None, program: tuple[str, ...] = ("-m", "pytest")
    ) -> subprocess.CompletedProcess[str]:
        """Run pytest in a separate process."""
        if not self.forks:
            return subprocess.run(
                [sys.executable, *program, *ARGUMENTS, *arguments],
                cwd=cwd or self.root,
                env=self.environment(),
                capture_output=True,
                text=True,
                timeout=120,
            )
        out, errors = (self.root.parent / name for name in ("stdout", "stderr"))
        status = run_forked(
            (*ARGUMENTS, *arguments), self.environment(), (out, errors), 120, cwd or self.root
        )
        return subprocess.CompletedProcess([], status, out.read_text(), errors.read_text())

    def settlements(self) -> dict[str, Settlement]:
        """Return the settlements in the newest run file, by `test` or `test label`."""
        newest = max(self.root.rglob(".gpuperf/runs/*/run.json"))
        run = msgspec.json.decode(newest.read_bytes(), type=Run)
        return {
            test.nodeid.rpartition("::")[2] + ("" if label == "main" else f" {label}"): measured.settlement
            for test in run.tests
            for label, measured in test.measurements.items()
            if measured.settlement is not None
        }

    def compared(self) -> dict[str, AgainstTiming]:
        """Return the comparisons in turn among them."""
        found = self.settlements().items()
        return {name: one.against for name, one in found if one.how == "in turn" and one.against is not None}

    def leftovers(self) -> list[str]:
        """Return extra worktrees, and the content of the temporary folder."""
        trees = self.git("worktree", "list").splitlines()[1:]
        return [*trees, *(path.name for path in self.temporary.iterdir() if path.name.startswith("gpuperf"))]

    def compare(
        self,
        *tests: str,
        ref: str = "main",
        arguments: tuple[str, ...] = (),
        looks: tuple[int, ...] = (2, 4, 6),
        patience_s: float = 60.0,
        say: Callable[[str], None] = lambda _: None,
        labels: tuple[str, ...] = ("main",),
        left_s: Callable[[], float] = lambda: 60.0,
        build: str = "",
        python: Path = Path(sys.executable),
        imports: tuple[str, ...] = (),
    ) -> Compared:
        """Time tests in turn with old code, from this process.

        Args:
            tests: Node ids.
            ref: The old code.
            arguments: More of the command line.
            looks: Numbers of restarts to decide after.
            patience_s: Seconds that a side process may be silent.
            say: Shows the progress.
            labels: Labels to time.
            left_s: Returns the seconds that are left.
            build: `gpuperf_build`.
            python: The program of Python that runs old code.
            imports: Modules that the tests import when they run.
        """

        def tick(text: str) -> None:
            say(text)
            if left_s() <= 0:
                raise OutOfTimeError("no time is left")

        repository = Repository.around(self.root)
        commit = replace(repository.commit(ref), python=python)
        with self.engine(arguments, looks, patience_s, build) as engine:
            series: dict[tuple[str, str], Series] = {}
            for nodeid in tests:
                test = replace(self.timed(nodeid, labels), imports=imports)
                found = engine.compare(test, repository, commit, tick)
                series |= {(nodeid, label): one for label, one in found.items()}
        return Compared(commit, series, engine.notices)

    def timed(self, nodeid: str, labels: tuple[str, ...] = ("main",)) -> TimedTest:
        """Return a test of calls without arguments."""
        calls = dict.fromkeys(labels, Fingerprint(mode="hot"))
        return TimedTest(nodeid, self.root / nodeid.partition("::")[0], calls)

    @contextmanager
    def engine(
        self,
        arguments: tuple[str, ...] = (),
        looks: tuple[int, ...] = (2, 4, 6),
        patience_s: float = 60.0,
        build: str = "",
    ) -> Iterator[Engine]:
        """Start an engine in this process; arguments as in `compare`."""
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.chdir(self.root)
            monkeypatch.setattr("tempfile.tempdir", str(self.temporary))
            monkeypatch.setattr(engine_module, "LOOKS", looks)
            monkeypatch.setattr(side_process, "PATIENCE_S", patience_s)
            monkeypatch.setattr(sequential, "LOOKS", looks)
            fork_children(monkeypatch.setattr)
            command = [*ARGUMENTS, *arguments]
            invocation = Invocation(command, self.root, self.root, "auto", str(self.root), self.environment())
            logs = self.root / ".gpuperf" / "runs" / "1" / "against"
            progress = lambda _: nullcontext(lambda _: None)  # noqa: E731
            made = Engine(self.root, invocation, logs, 0.01, build, "9.0", progress)
            with closing(made) as engine:
                yield engine


@dataclass
class Compared:
    """Tests that were timed in turn."""

    commit: Commit
    series: dict[tuple[str, str], Series]
    notices: list[str]

"""Baseline files, read, checked, and written by one process at a time; and the baseline of each test."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.limits import parse_limits
from pytest_gpuperf.judge.times import Origin
from pytest_gpuperf.judge.verdict import Expected
from pytest_gpuperf.records.baseline import BASELINE_SCHEMA, Baseline, suite_of
from pytest_gpuperf.records.decoding import decode_versioned
from pytest_gpuperf.records.files import find_files, remove_leftovers, show_path, write_files
from pytest_gpuperf.records.run import STATIC_SOURCE
from pytest_gpuperf.records.run_store import SAFE_NAME, STATE_FOLDER, make_state_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from filelock import FileLock

    from pytest_gpuperf.judge.result import Hints
    from pytest_gpuperf.records import Environment, TestRecord, Toolchain
    from pytest_gpuperf.records.baseline import MeasurementBaseline, RunNote, TestBaseline

LOCK_TIMEOUT_S = 10.0

_DECODER = msgspec.json.Decoder(Baseline)

_NUMBERS = re.compile(r"\[\n *-?\d[^\[\]{}\":]*\n *\]")
"""A list of numbers on several lines; a string has no raw newline."""


class BaselineStore:
    """Baseline files below one folder: `<root>/<gpu slug>/<suite>.json`.

    Args:
        root: The folder; need not exist.
        state: Folder of the lock that lets one process write; by default `.gpuperf` next to `root`.
    """

    def __init__(self, root: Path, *, state: Path | None = None) -> None:
        self.root = root
        self._state = root.parent / STATE_FOLDER if state is None else state
        self._files: dict[Path, Baseline | None] = {}

    @cached_property
    def _lock(self) -> FileLock:
        # Runs that only read spare the import.
        from filelock import FileLock

        return FileLock(self._state / "baselines.lock", timeout=LOCK_TIMEOUT_S)

    def path(self, slug: str, suite: str) -> Path:
        """Return the path of the baseline of a suite on a GPU; the file may not exist."""
        if not SAFE_NAME.fullmatch(slug):
            raise GpuperfError(
                f"{slug!r} is not a name of a GPU", expected="letters, digits, '-', '_' and '.'"
            )
        return self.root / slug / f"{suite}.json"

    def slugs(self) -> list[str]:
        """Return the GPUs that have baselines, sorted."""
        return sorted({path.parent.name for path in find_files(self.root, "*/*.json")})

    def suites(self, slug: str) -> list[str]:
        """Return the suites that have a baseline on a GPU, sorted."""
        return [path.stem for path in find_files(self.root / slug, "*.json")]

    def tests(self, slug: str) -> Iterator[tuple[str, TestBaseline, Mapping[str, RunNote]]]:
        """Return all tests on a GPU: node id, baseline, and the notes of the runs in their file.

        Raises:
            GpuperfError: As `load`.
        """
        for suite in self.suites(slug):
            if (baseline := self.load(slug, suite)) is not None:
                for nodeid, test in baseline.tests.items():
                    yield nodeid, test, baseline.runs

    def load(self, slug: str, suite: str) -> Baseline | None:
        """Read the baseline of a suite on a GPU, once; None without a file.

        Raises:
            GpuperfError: The file is broken, of a newer schema, or for another GPU.
        """
        path = self.path(slug, suite)
        if path not in self._files:
            self._files[path] = _read(path)
        return self._files[path]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing between reading a file and writing its new content.

        Temporary files of killed processes are removed.

        Raises:
            GpuperfError: Another process holds the lock.
        """
        make_state_folder(self._state)
        try:
            self._lock.acquire()
        except TimeoutError:
            raise GpuperfError(
                f"another process writes the baselines: {show_path(self._state)} is locked",
                next_step="wait until it has ended, then type the same again",
            ) from None
        # Another process may have written.
        self._files.clear()
        try:
            for folder in (*find_files(self.root, "*"), *find_files(self.root, "*/recordings")):
                remove_leftovers(folder)
            yield
        finally:
            self._lock.release()

    def write(self, changes: Mapping[Path, Baseline]) -> None:
        """Write baseline files, so that each is either complete or unchanged, whatever happens.

        Raises:
            GpuperfError: Another process holds the lock.
            OSError: As the file system says; no file has changed if the disk had no room for all.
        """
        with self.locked():
            write_files({path: encode_baseline(content) for path, content in changes.items()})
        self._files.clear()


class Expectations:
    """Baselines of the tests of a run on the present GPU, and of kernels that were only compiled.

    Args:
        store: The baseline files.
        environment: GPU and toolchain of the run.
        cards: UUID of the card of each test, by node id, if the run has several.
    """

    def __init__(
        self, store: BaselineStore, environment: Environment, cards: Mapping[str, str] | None = None
    ) -> None:
        self.store = store
        self._environment = environment
        self._cards = cards or {}
        self.toolchains: Mapping[str, Toolchain] = {}
        """Versions of each test, by node id, if the tests are of several runs."""

    def of(self, nodeid: str, slug: str = "") -> TestBaseline | None:
        """Return the baseline of a test on the present GPU, or in another folder of the baselines.

        Raises:
            GpuperfError: The baseline file is broken, of a newer schema, or for another GPU.
        """
        baseline = self._file(nodeid, slug)
        return baseline.tests.get(nodeid) if baseline else None

    def runs(self, nodeid: str, slug: str = "") -> Mapping[str, RunNote]:
        """Return the origins of the sessions in a test's baseline file, by run id."""
        baseline = self._file(nodeid, slug)
        return baseline.runs if baseline else {}

    def origin(self, nodeid: str) -> Origin:
        """Return the origin of a test's new times."""
        card = self._cards.get(nodeid, self._environment.gpu.uuid)
        toolchain = self.toolchains.get(nodeid, self._environment.toolchain)
        return Origin(card, toolchain, self.runs(nodeid))

    def expected(
        self, test: TestRecord, tolerance_pct: float, hints: Hints, compiled_hints: Hints
    ) -> tuple[Expected, Expected]:
        """Return the facts that the judge needs: for measurements on this GPU, and for compiled kernels.

        The accepted slowdown counts if neither the baseline nor the record has one.
        """
        nodeid, gpu = test.nodeid, self._environment.gpu
        origin = self.origin(nodeid)
        tolerance_pct = self.tolerance_pct(nodeid, test.tolerance_pct or tolerance_pct)

        def of(slug: str, hints: Hints) -> Expected:
            file = self.store.path(slug or gpu.slug, suite_of(nodeid))
            return Expected(self.of(nodeid, slug), origin, tolerance_pct, hints, file, gpu)

        return of("", hints), of(STATIC_SOURCE, compiled_hints)

    def measurement(self, nodeid: str, label: str, slug: str = "") -> MeasurementBaseline | None:
        """Return the baseline of one measurement of a test; None without one."""
        baseline = self.of(nodeid, slug)
        return baseline.measurements.get(label) if baseline is not None else None

    def tolerance_pct(self, nodeid: str, otherwise_pct: float) -> float:
        """Return the accepted slowdown of a test, in %: that of the baseline file comes first."""
        baseline = self.of(nodeid)
        own = baseline.tolerance_pct if baseline is not None else None
        return otherwise_pct if own is None else own

    def limit_metrics(self, nodeid: str) -> list[str]:
        """Return the metrics that the baseline file has limits for."""
        baseline = self.of(nodeid)
        limits = parse_limits(baseline.limits) if baseline is not None else ()
        return [limit.name for limit in limits if limit.part == "profile"]

    @cached_property
    def other_gpus(self) -> str:
        """A remark about baselines for other GPUs; empty if there are none."""
        own = self._environment.gpu.slug
        others = [other for other in self.store.slugs() if other != STATIC_SOURCE]
        if not others or own in others:
            return ""
        return f" (there are baselines for {', '.join(others)}, not for {own})"

    def _file(self, nodeid: str, slug: str) -> Baseline | None:
        return self.store.load(slug or self._environment.gpu.slug, suite_of(nodeid))


def _read(path: Path) -> Baseline | None:
    shown = show_path(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise GpuperfError(f"{shown} cannot be read: {error.strerror}") from None
    next_step = f"fix it by hand, or type `git restore {shown}`"
    baseline = decode_versioned(data, _DECODER, schema=BASELINE_SCHEMA, shown=shown, next_step=next_step)
    if baseline.gpu.slug != path.parent.name:
        right = path.parent.parent / baseline.gpu.slug / path.name
        raise GpuperfError(
            f"{shown} is for another GPU: {baseline.gpu.slug}",
            expected=path.parent.name,
            next_step=f"{'keep either it or' if right.exists() else 'move the file to'} {show_path(right)}",
        )
    try:
        for nodeid, test in baseline.tests.items():
            where = f"{shown}, limits of {nodeid}"
            parse_limits(test.limits)
    except GpuperfError as error:
        found = f"{where}: {error.found}"
        raise GpuperfError(found, expected=error.expected, next_step=error.next_step) from None
    return baseline


def encode_baseline(baseline: Baseline) -> bytes:
    """Return the bytes of a baseline file: sorted keys, two spaces, lists of numbers on one line, newline."""
    text = json.dumps(_plain(baseline), indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    text = _NUMBERS.sub(lambda found: " ".join(found[0].split()).replace("[ ", "[").replace(" ]", "]"), text)
    return f"{text}\n".encode()


def _plain(value: Any) -> Any:
    """Return JSON without values that are the default of their field; whole numbers are integers."""
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        return {one.name: _plain(getattr(value, one.name)) for one in fields if not _is_default(value, one)}
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_plain, value))
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_default(record: msgspec.Struct, field: msgspec.structs.FieldInfo) -> bool:
    value = getattr(record, field.name)
    return bool(value == field.default or (not value and field.default_factory is not msgspec.NODEFAULT))

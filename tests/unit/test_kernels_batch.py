"""Calls that are timed by their kernels: a block from CUPTI's records, and the choice of this mode."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti.activity import Activity
from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.measure.device import originals
from pytest_gpuperf.measure.timing import batch_preparation, kernels_batch
from pytest_gpuperf.measure.timing.batch import Block, GpuWork, HostBatch
from pytest_gpuperf.measure.timing.graph import NotCapturableError, nothing_launched
from pytest_gpuperf.measure.timing.kernels_batch import KernelsBatch, by_call, single_call_of, work_of
from pytest_gpuperf.measure.verification import verifier
from pytest_gpuperf.records import StreamWork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_gpuperf.measure.timing.batch import Batch


def kernel(launch: int, start_us: float, us: float, name: str = "k", **rest: Any) -> Activity:
    return Activity(round(start_us * 1e3), round((start_us + us) * 1e3), name, launch=launch, **rest)


def test_marks_separate_calls_by_launch_not_by_start() -> None:
    first = [kernel(2, 10, 5), kernel(3, 90, 5, stream=9)]
    second = [kernel(5, 20, 5, "gpuperf_stamp")]  # the callable may name its kernels like this
    others = [kernel(0, 0, 1), kernel(1, 5, 1, "mark"), kernel(4, 15, 1, "mark"), kernel(6, 99, 1, "mark")]
    late = [kernel(7, 120, 3), kernel(8, 30, 2, "gpuperf_stamp")]
    found = by_call([*late, *others, *second, *first], [1, 4, 6])
    assert [sorted(call) for call in found] == [first, second]


MARK = kernel(1, 0, 1, "mark", stream=7)


def test_gaps_and_copies_to_the_host_are_not_in_the_time() -> None:
    call = [kernel(2, 0, 5), kernel(3, 300, 7), kernel(4, 400, 40, "", with_host=True)]
    work = work_of([call], MARK)
    assert (work.busy_us, work.kernels_us, work.host_copies_us) == (12, 12, 40)


def test_copies_to_the_host_are_the_time_of_calls_without_other_work() -> None:
    calls = [[kernel(at, at, 40, "", with_host=True, stream=7)] for at in (2, 50)]
    calls = [[one._replace(bytes=64) for one in call] for call in calls]
    work = work_of(calls, MARK)
    assert (work.busy_us, work.kernels_us, work.host_copies_us, work.copied_bytes) == (40, 40, 0, 64)
    assert [(one.stream, one.current, one.launches) for one in work.streams] == [(7, True, 1)]


def test_same_stream_of_another_device_is_another_stream() -> None:
    work = work_of([[kernel(2, 0, 5, stream=7), kernel(3, 9, 5, stream=7, device=1)]], MARK)
    assert [(one.stream, one.current) for one in work.streams] == [(7, True), (7, False)]


def test_overlapping_streams_count_once_in_the_busy_time() -> None:
    call = [kernel(2, 0, 10, "a<4>(int)", stream=7), kernel(3, 5, 10, "b", stream=13)]
    work = work_of([call], MARK)
    assert (work.busy_us, work.kernels_us) == (15, 20)
    assert work.streams == (
        StreamWork(stream=7, current=True, launches=1, kernels_us=10, kernels=("a",)),
        StreamWork(stream=13, launches=1, kernels_us=10, kernels=("b",)),
    )


def test_calls_may_launch_different_kernels() -> None:
    calls = [[kernel(1, 0, 5)], [kernel(3, 10, 5), kernel(4, 20, 5)]]
    work = work_of(calls, MARK)
    assert (work.busy_us, work.streams[0].launches) == (7.5, 1.5)


class FakeCupti:
    """Records of a call that waits: kernels of `us` on each stream, or of `serial_us` if serialised."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.us = 5.0
        self.serial_us = 6.5
        self.streams = [144]
        self._serial = False
        self.lost = 0
        self.work: dict[str, Any] = {}
        """Facts of each activity of a call."""
        self.refused = ""
        self.now = 0
        self._found: list[Activity] = []
        for module in (kernels_batch, verifier):
            monkeypatch.setattr(module, "recorded", self._recorded)
            monkeypatch.setattr(module, "mark", self._mark)
        monkeypatch.setattr(kernels_batch, "detach", lambda: None)

    def _mark(self) -> None:
        self._launch("gpuperf_empty", 1.0, 7)

    def call(self) -> None:
        if self.us:
            for stream in self.streams:
                self._launch("k", self.serial_us if self._serial else self.us, stream, **self.work)

    def _launch(self, name: str, us: float, stream: int, **facts: Any) -> None:
        self.now += 1
        self._found.append(kernel(self.now, 10_000 * self.now, us, name, stream=stream, **facts))

    @contextmanager
    def _recorded(self, *, stay: bool, serial: bool = False) -> Iterator[list[Activity]]:
        if self.refused:
            raise CuptiError(self.refused)
        self._serial = serial
        self._found = []
        found: list[Activity] = []
        yield found
        found.extend(self._found[self.lost :])


@pytest.fixture
def cupti(monkeypatch: pytest.MonkeyPatch) -> FakeCupti:
    return FakeCupti(monkeypatch)


@pytest.mark.parametrize(("streams", "time_us"), [([144], 4.7), ([144, 145], 10.0)])
def test_shorter_records_are_taken_if_one_stream_works(
    cupti: FakeCupti, streams: list[int], time_us: float
) -> None:
    cupti.serial_us, cupti.streams = 4.7, streams
    assert KernelsBatch(cupti.call).run().time_us == pytest.approx(time_us)


def test_calls_are_repeated_as_they_were_recorded(cupti: FakeCupti, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[object] = []
    calls = verifier.reruns_of(KernelsBatch(cupti.call))
    assert len(calls) == verifier.LIVE_CALLS
    monkeypatch.setattr(verifier, "finish", lambda *value: ends.append(value))
    assert calls[0].live
    assert calls[0].run(lambda: ends.append("before")) == 5
    assert ends == ["before", (), (None,)]


def test_call_that_only_copies_to_the_host_is_timed(cupti: FakeCupti) -> None:
    cupti.work = {"with_host": True}
    batch = KernelsBatch(cupti.call)
    assert batch.run().time_us == 5.0
    assert verifier.reruns_of(batch)[0].run(lambda: None) == 5.0


@pytest.mark.parametrize(("device", "mhz"), [(0, 1500.0), (1, 0.0)])
def test_clock_of_another_device_is_not_known(cupti: FakeCupti, device: int, mhz: float) -> None:
    cupti.work = {"device": device}
    batch = KernelsBatch(cupti.call, CountingStamps())  # type: ignore[arg-type]
    assert tuple(batch.run())[:2] == (5.0, mhz)


def test_lost_records_are_refused(cupti: FakeCupti) -> None:
    batch = KernelsBatch(cupti.call)
    cupti.lost = 1
    with pytest.raises(CuptiError, match="of 51 marks"):
        batch.run()


def test_kernels_with_the_name_of_the_marks_are_refused(cupti: FakeCupti) -> None:
    work = [cupti.call]
    batch = KernelsBatch(lambda: work[-1]())
    again = verifier.reruns_of(batch)[0]
    work.append(lambda: cupti._launch("gpuperf_empty", 5.0, 144))
    for refused in (batch.run, lambda: again.run(lambda: None)):
        with pytest.raises(GpuperfError, match="kernels of the callable have the name gpuperf_empty") as told:
            refused()
        assert not isinstance(told.value, CuptiError)


@pytest.fixture
def prepare(monkeypatch: pytest.MonkeyPatch, cupti: FakeCupti) -> Callable[..., Batch]:
    """Return a function that prepares a call whose capture fails with an error."""
    monkeypatch.setattr(batch_preparation, "detach", lambda: None)
    monkeypatch.setattr(batch_preparation, "_probe", lambda _: batch_preparation._Probe(5.0, 5.0))
    monkeypatch.setattr(originals, "event", lambda: None)

    def prepare(mode: str, error: Exception, *, waits: bool = True) -> Batch:
        def capture(_: object) -> None:
            raise error

        monkeypatch.setattr(batch_preparation, "capture", capture)
        monkeypatch.setattr(batch_preparation, "rehearse", lambda _: None)
        monkeypatch.setattr(batch_preparation, "waits_for_gpu", lambda _: waits)
        return batch_preparation.prepare(cupti.call, mode, flush_bytes=1, stamps=None)

    return prepare


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NotCapturableError("it synchronises"), "it synchronises"),
        (nothing_launched(), "it launches nothing on the current stream"),
    ],
)
def test_auto_times_other_calls_by_their_kernels(
    prepare: Callable[..., Batch], error: Exception, reason: str
) -> None:
    found = prepare("auto", error)
    assert (found.mode, found.not_captured, found.not_recorded) == ("kernels", reason, "")


def test_without_cupti_the_host_times_work_on_other_streams(
    prepare: Callable[..., Batch], cupti: FakeCupti
) -> None:
    cupti.refused = "torch.profiler holds CUPTI"
    found = prepare("auto", nothing_launched(), waits=False)
    assert (found.mode, found.not_recorded) == ("host", "torch.profiler holds CUPTI")


@pytest.mark.parametrize("mode", ["hot", "cold", "queued"])
def test_other_modes_refuse_calls_that_wait(prepare: Callable[..., Batch], mode: str) -> None:
    with pytest.raises(GpuperfError, match="mode='kernels'"):
        prepare(mode, NotCapturableError("it synchronises"))


@pytest.mark.parametrize("mode", ["auto", "hot", "queued", "host"])
def test_call_that_launches_nothing_is_refused_in_each_mode(
    prepare: Callable[..., Batch], cupti: FakeCupti, mode: str
) -> None:
    cupti.us = 0
    with pytest.raises(GpuperfError, match="nothing on the "):
        prepare(mode, nothing_launched())


class CountingStamps:
    """Stamps that count, at 1500 MHz."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def before(self) -> None:
        self.log.append("before")

    def after(self) -> None:
        self.log.append("after")

    def sm_clock_mhz(self) -> float:
        return 1500.0


def test_first_recording_has_three_calls_and_the_host_is_timed_alone(
    cupti: FakeCupti, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    monkeypatch.setattr(kernels_batch, "detach", lambda: steps.append("detach"))

    def run(batch: HostBatch) -> Block:
        steps.append(f"host {batch.calls}")
        return Block(1.0)

    monkeypatch.setattr(HostBatch, "run", run)
    stamps = CountingStamps()
    batch = KernelsBatch(cupti.call, stamps)  # type: ignore[arg-type]
    # Three calls with four marks, five times.
    assert (cupti.now, steps, stamps.log) == (35, ["detach", "host 1"], ["before", "after"] * 5)
    assert batch.run().sm_clock_mhz == 1500
    steps.clear()
    assert batch.host_blocks_us() == [1.0] * 20
    assert steps == ["detach", *["host 50"] * 20]


@pytest.mark.parametrize(
    ("us", "calls"), [(1.0, 50), (99.0, 50), (200.0, 25), (1000.0, 5), (1999.9, 3), (2000.1, 2), (1e6, 1)]
)
def test_block_has_five_milliseconds_of_kernels(cupti: FakeCupti, us: float, calls: int) -> None:
    cupti.us = us
    batch = KernelsBatch(cupti.call)
    assert batch.calls == calls
    assert batch.run().sm_clock_mhz == 0


@pytest.mark.parametrize(
    ("host_us", "calls", "host_calls"),
    [
        (1000.0, 50, 10),
        (2000.0, 25, 5),
        (10_000.0, 5, 1),
        (25_000.0, 2, 1),
        (60_000.0, 1, 1),
        (1e6, 1, 1),
        (100.0, 50, 50),
    ],
)
def test_block_has_fifty_milliseconds_of_the_host(
    cupti: FakeCupti, monkeypatch: pytest.MonkeyPatch, host_us: float, calls: int, host_calls: int
) -> None:
    timed: list[int] = []

    def run(batch: HostBatch) -> Block:
        timed.append(batch.calls)
        return Block(host_us)

    monkeypatch.setattr(HostBatch, "run", run)
    batch = KernelsBatch(cupti.call)
    batch.host_blocks_us()
    assert (batch.calls, timed) == (calls, [1, *[host_calls] * 20])


def test_mean_of_blocks_leaves_out_the_extremes_of_kernels() -> None:
    streams = tuple(StreamWork(stream=number, launches=1, kernels_us=1.0) for number in range(5))
    works = [GpuWork(us, 2 * us, us, (streams[at],), 8.0) for at, us in enumerate((9.0, 2.0, 3.0, 4.0, 99.0))]
    found = single_call_of([Block(work.busy_us, work=work) for work in works], [20.0] * 3)
    assert [found.busy_us, found.kernels_us] == pytest.approx([16 / 3, 32 / 3])
    assert found.host_copies_us == pytest.approx(117 / 5)
    assert (found.streams, found.copied_bytes) == ((streams[4],), 8.0)

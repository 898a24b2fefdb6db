"""Code of launched kernels: loaded cubins, Triton's variants, and CUPTI's callbacks."""

from __future__ import annotations

import gzip
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fake_cupti import FakeCupti, install
from pytest_gpuperf.compat import compiler_names
from pytest_gpuperf.measure import first_calls
from pytest_gpuperf.measure.cubin_hash import Cubin
from pytest_gpuperf.measure.cupti.activity import Activity
from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.measure.first_calls import MOST_KERNELS, CodeReader, FirstCalls, LoadedModules
from pytest_gpuperf.records.call import Call
from run_builders import timing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_gpuperf.records import LaunchedCode

CUBIN = gzip.decompress((Path(__file__).parents[1] / "data" / "static" / "spill.cubin.gz").read_bytes())
CODE = Cubin(CUBIN).instructions("staged")
CHANGED = CUBIN.replace(CODE, CODE[:-1] + bytes([CODE[-1] ^ 1]))


def launch(name: str = "staged", at: int = 0, **more: Any) -> Activity:
    return Activity(at, at + 1000, name, symbol=name, launch=at, stream=7, block=(128, 1, 1), **more)


class Reader:
    """Reads code of a call that launches given activities and loads given cubins."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.activities: list[Activity] = []
        self.loads: list[bytes] = []
        self.error: CuptiError | None = None
        self.reader = CodeReader("580.1")
        patch.setattr(first_calls, "watched_modules", self._watched)
        patch.setattr(first_calls, "kept_attached", nullcontext)
        patch.setattr(first_calls, "recorded", self._recorded)

    @contextmanager
    def _watched(self, take: Callable[[bytes], None]) -> Iterator[None]:
        if self.error is not None:
            raise self.error
        yield
        while self.loads:
            take(self.loads.pop(0))

    @contextmanager
    def _recorded(self) -> Iterator[list[Activity]]:
        if self.error is not None:
            raise self.error
        yield self.activities

    def read(self, *args: object, nodeid: str = "test_k.py::test_k") -> LaunchedCode:
        return self.reader.read(Call(nodeid, "main", lambda *_: None, args))


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Reader:
    return Reader(monkeypatch)


def test_kernel_gets_the_hash_of_its_loaded_code(reader: Reader) -> None:
    reader.loads = [CUBIN]
    reader.activities = [launch(local_bytes=8), Activity(0, 1, "", 4096), launch(at=5000, local_bytes=8)]
    [kernel] = reader.read().kernels
    assert (kernel.name, kernel.code) == ("staged", Cubin(CUBIN).code_hash("staged"))
    assert (kernel.launches, kernel.code_bytes, kernel.local_bytes) == (2, 640, 8)


def test_two_configurations_of_a_kernel_are_kept_apart(reader: Reader) -> None:
    reader.activities = [launch(grid=(1, 1, 1)), launch(grid=(2, 1, 1))]
    assert [kernel.grid[0] for kernel in reader.read().kernels] == [1, 2]


def test_kernel_whose_code_was_loaded_before_is_unknown(reader: Reader) -> None:
    reader.activities = [launch()]
    assert [kernel.code for kernel in reader.read().kernels] == [""]


def test_code_of_the_present_test_comes_first(reader: Reader) -> None:
    reader.activities = [launch()]
    hashes = []
    for nodeid, cubin in (("t.py::a", CUBIN), ("t.py::b", CHANGED), ("t.py::c", b"\x7fELF")):
        reader.loads = [cubin]
        hashes.append(reader.read(nodeid=nodeid).kernels[0].code)
    # The third test has loaded neither, and both fit.
    assert hashes == [Cubin(CUBIN).code_hash("staged"), Cubin(CHANGED).code_hash("staged"), ""]


def test_code_is_unknown_without_cupti(reader: Reader) -> None:
    reader.error = CuptiError("libcupti was not found")
    watched = FirstCalls()
    found = reader.reader.read(Call("t", "main", watched.watched(len), ("abc",)))
    assert (found.unavailable, found.kernels) == ("libcupti was not found", ())
    # Its seconds and its memory need two calls, and no CUPTI.
    assert watched.added_to(timing(5.0)).first_call is not None


def test_call_of_too_many_kernels_is_left_out(reader: Reader) -> None:
    reader.activities = [launch(grid=(number, 1, 1)) for number in range(MOST_KERNELS + 1)]
    found = reader.read()
    assert (found.kernels, found.unavailable) == ((), "a call launches 101 different kernels, more than 100")


def test_triton_variant_is_found_by_its_handle(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    variants = [
        compiler_names.CompiledKernel(handle, 0, None, "", cubin)
        for handle, cubin in ((1, CUBIN), (2, CHANGED))
    ]
    monkeypatch.setattr(compiler_names, "compiled_kernels", lambda: {"staged": variants})
    reader.activities = [launch()]
    codes = []
    for handles in ({1}, {2}, set[int]()):

        @contextmanager
        def launched(note: Callable[[int], object], handles: set[int] = handles) -> Iterator[None]:
            for handle in handles:
                note(handle)
            yield

        monkeypatch.setattr(compiler_names, "launches_noted", launched)
        codes.append(reader.read().kernels[0].code)
    assert codes == [Cubin(CUBIN).code_hash("staged"), Cubin(CHANGED).code_hash("staged"), ""]


def test_oldest_cubins_go_when_memory_is_full() -> None:
    modules = LoadedModules(most_bytes=len(CUBIN) + 100)
    modules.take(CUBIN)
    modules.take(CHANGED)
    [left] = modules.having("staged")
    assert left.code_hash("staged") == Cubin(CHANGED).code_hash("staged")


def test_loaded_modules_are_copied_and_cupti_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeCupti()
    install(monkeypatch, library)
    taken: list[bytes] = []
    with first_calls.watched_modules(taken.append):
        library.load(b"\x7fELF one")
        library.load(b"a context, not a module", callback=1)
    assert taken == [b"\x7fELF one"]
    assert (library.subscriber, library.finalised) == (0, 1)


def test_call_that_raises_has_no_code(reader: Reader) -> None:
    def fn() -> None:
        raise ValueError("a bad shape")

    found = reader.reader.read(Call("test_k.py::test_k", "main", fn, ()))
    assert (found.kernels, found.unavailable) == ((), "the call raises ValueError")

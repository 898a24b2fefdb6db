"""Private names of other packages: one room has them all, and each may be missing."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import torch
import xdist.dsession

import pytest_gpuperf
from pytest_gpuperf.compat import compiler_names, pytest_names, torch_names, xdist_names
from pytest_gpuperf.measure.correctness.guarded_memory import can_guard
from pytest_gpuperf.measure.cupti import activity
from pytest_gpuperf.measure.device import driver, originals
from pytest_gpuperf.plugin import watchdog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PACKAGE = Path(pytest_gpuperf.__file__).parent
OF_PYTHON = {
    *("_replace", "_asdict", "_fields", "_fields_", "_Pointer", "_exit", "_run_exitfuncs", "_current_frames")
}
"""Names of the standard library, most of which it documents."""
ONE_EVENT = {"device_traces": [["alloc"]]}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name != "_" and name not in OF_PYTHON


def foreign_names(path: Path, tree: ast.Module, own: set[str]) -> Iterator[str]:
    """Yield the private names of other packages that a file uses, except for type checkers."""
    typing = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("pytest_gpuperf"):
            names = [*(node.module or "").split("."), *(one.name for one in node.names)]
        elif isinstance(node, ast.Import):
            names = [part for one in node.names for part in one.name.split(".")]
        elif isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr", "setattr"):
            names = [str(node.args[1].value)] if isinstance(node.args[1], ast.Constant) else []
        for name in filter(is_private, names):
            if name not in own and id(node) not in typing:
                yield f"{path.relative_to(PACKAGE)}: {ast.unparse(node)}"


def test_only_compat_uses_private_names_of_other_packages() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
    own: set[str] = set()
    for node in (node for tree in trees.values() for node in ast.walk(tree)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            own.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            own.update({node.attr} if getattr(node.value, "id", "") in ("self", "instance") else ())
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
    elsewhere = {path: tree for path, tree in trees.items() if path.parent.name != "compat"}
    assert [name for path, tree in elsewhere.items() for name in foreign_names(path, tree, own)] == []
    compat = [path for path in trees if path.parent.name == "compat"]
    assert len([name for path in compat for name in foreign_names(path, trees[path], own)]) > 10


MODES = torch.utils._python_dispatch
MISSING = [
    (torch._C, "_CudaEventBase", torch_names.event_type, torch.cuda.Event),
    (torch._C, "_CudaStreamBase", torch_names.stream_type, torch.cuda.Stream),
    (torch._C, "_CUDAGraph", torch_names.graph_type, torch.cuda.CUDAGraph),
    (torch._C, "TensorBase", torch_names.tensor_type, torch.Tensor),
    (torch._C, "_cuda_synchronize", torch_names.synchronisation, torch.cuda.synchronize),
    (torch._C, "_cuda_getDevice", torch_names.current_device, torch.cuda.current_device),
    (torch._C, "_cuda_getCurrentStream", torch_names.current_stream, torch.cuda.current_stream),
    (torch._C, "_cuda_sleep", torch_names.sleep, None),
    (torch._C, "DisableTorchFunction", torch_names.without_functions, nullcontext),
    (torch._C, "_len_torch_function_stack", torch_names.function_modes, int),
    (torch._C, "_len_torch_dispatch_stack", torch_names.dispatch_modes, int),
    (torch._C, "_demangle", lambda: torch_names.demangled("_Z6squarePf"), "_Z6squarePf"),
    (torch.library, "_impls", torch_names.kernels_of_libraries, frozenset()),
    (MODES, "_disable_current_modes", torch_names.without_modes, nullcontext),
    (MODES, "TorchDispatchMode", torch_names.dispatch_mode_type, nullcontext),
    (xdist.dsession, "Interrupted", xdist_names.interruption_type, xdist_names._NeverRaised),
]


@pytest.mark.parametrize(("owner", "name", "taken", "instead"), MISSING, ids=[one[1] for one in MISSING])
def test_another_name_takes_the_place_of_a_missing_one(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, taken: Callable[[], Any], instead: Any
) -> None:
    if owner is torch.library:
        monkeypatch.setattr(owner, name, {"aten/square/CUDA"})
    elif name.startswith("_cuda"):  # not in a build for a CPU
        monkeypatch.setattr(owner, name, lambda: "private", raising=False)
    assert taken() != instead
    monkeypatch.delattr(owner, name)
    assert taken() == instead


def test_current_stream_is_made_of_the_numbers_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 3, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentStream", lambda device: (7, device, 1), raising=False)
    monkeypatch.setattr(torch._C, "_CudaStreamBase", dict)
    assert torch_names.current_stream()() == {"stream_id": 7, "device_index": 3, "device_type": 1}


def test_own_kernel_spins_where_torch_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[object] = []

    def load(ptx: str, name: str) -> object:
        assert f".entry {name}(" in ptx
        return SimpleNamespace(launch=lambda *arguments: launched.append(arguments))

    monkeypatch.setattr(driver, "load", load)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_device", int)
    monkeypatch.setattr(originals, "_SLEEP", None)
    monkeypatch.setattr(originals, "current_stream", lambda: SimpleNamespace(cuda_stream=7))
    driver.kernel.cache_clear()
    originals.sleep_on_gpu(2000)
    driver.kernel.cache_clear()
    assert launched == [(1, 1, 2000, 7)]
    assert activity.SPIN in driver.SPIN  # by which records of CUPTI are parted


@pytest.mark.parametrize("name", driver.PTX)
def test_own_kernels_are_valid_ptx(tmp_path: Path, name: str) -> None:
    import triton

    (tmp_path / "kernel.ptx").write_text(driver.PTX[name])
    folder = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    ptxas = [str(folder / "ptxas"), "-arch=sm_90", "-o", os.devnull, str(tmp_path / "kernel.ptx")]
    subprocess.run(ptxas, check=True)


@pytest.mark.parametrize(("reserved", "used"), [(0, False), (512, True)])
def test_memory_of_torch_shows_a_used_device(
    monkeypatch: pytest.MonkeyPatch, reserved: int, used: bool
) -> None:
    monkeypatch.delattr(torch._C, "_cuda_hasPrimaryContext", raising=False)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: reserved)
    assert torch_names.context_test()(1) is used


@pytest.mark.parametrize(
    "missing", [(torch.autograd, "_profiler_enabled"), (torch.autograd.profiler, "_is_profiler_enabled")]
)
def test_profiler_is_seen_by_the_other_name(
    monkeypatch: pytest.MonkeyPatch, missing: tuple[Any, str]
) -> None:
    monkeypatch.setattr(torch.autograd, "_profiler_enabled", lambda: True)
    monkeypatch.setattr(torch.autograd.profiler, "_is_profiler_enabled", True)
    monkeypatch.delattr(*missing)
    assert torch_names.profiler_runs()


@pytest.mark.parametrize("name", ["_record_memory_history", "_snapshot", "_cuda_isHistoryEnabled"])
def test_allocations_are_not_guarded_without_a_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(torch._C, "_cuda_isHistoryEnabled", lambda: False, raising=False)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: "native")
    assert can_guard()
    monkeypatch.delattr(torch._C if name.startswith("_cuda") else torch.cuda.memory, name)
    assert not can_guard()


def test_memory_is_recorded_only_in_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    enabled: list[object] = []
    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", lambda on, **_: enabled.append(on))
    monkeypatch.setattr(torch.cuda.memory, "_snapshot", lambda: ONE_EVENT)
    with torch_names.recorded_memory(9) as events:
        assert (enabled, events()) == (["all"], [["alloc"]])
    assert enabled == ["all", None]


def stand_in(patch: pytest.MonkeyPatch, name: str, **members: object) -> None:
    patch.setitem(sys.modules, name, module := ModuleType(name))
    vars(module).update(members)


@pytest.mark.parametrize("runtime", [SimpleNamespace(), None])
def test_launches_without_hook_are_not_noted(monkeypatch: pytest.MonkeyPatch, runtime: object) -> None:
    stand_in(monkeypatch, "triton.knobs", **({"runtime": runtime} if runtime else {}))
    monkeypatch.delitem(sys.modules, "triton.compiler.compiler", raising=False)
    with compiler_names.launches_noted(lambda _: pytest.fail("noted")):
        assert not vars(runtime or SimpleNamespace())


@pytest.mark.parametrize(
    ("module", "name"), [("triton.knobs", "runtime"), ("triton.compiler.compiler", "CompiledKernel")]
)
def test_launches_are_noted_by_their_handles(monkeypatch: pytest.MonkeyPatch, module: str, name: str) -> None:
    owner = SimpleNamespace(launch_enter_hook=None)
    monkeypatch.delitem(sys.modules, "triton.knobs", raising=False)
    stand_in(monkeypatch, module, **{name: owner})
    noted: list[object] = []
    with compiler_names.launches_noted(noted.append):
        hook: Any = owner.launch_enter_hook
        for metadata in (object(), SimpleNamespace(data={}), SimpleNamespace(data={"function": 4})):
            hook(metadata)
    assert (noted, owner.launch_enter_hook) == ([4], None)


@pytest.mark.parametrize("members", [{}, {"compilation": SimpleNamespace()}])
def test_compilers_without_their_names_are_not_noted(
    monkeypatch: pytest.MonkeyPatch, members: dict[str, object]
) -> None:
    stand_in(monkeypatch, "triton.knobs", **members)
    for name in ("torch._dynamo.utils", "cupy.cuda.compiler", "torch.cuda._utils"):
        stand_in(monkeypatch, name)
    for noted in (
        compiler_names.triton_compilations_noted,
        compiler_names.nvrtc_compilations_noted,
        torch_names.compilations_noted,
    ):
        with noted(lambda *_: pytest.fail("noted")):
            pass


@pytest.mark.parametrize("missing", ["configs", "run"])
def test_autotuner_without_its_names_chooses_itself(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    kind: Any = type("Autotuner", (Tuner,), {})
    if missing == "run":
        monkeypatch.delattr(Tuner, "run")
    stand_in(monkeypatch, "triton.runtime.autotuner", Autotuner=kind)
    with compiler_names.choices_pinned({"kernel": "BLOCK: 8"}):
        assert missing == "run" or kind().run() == 3


TEMPLATE = "ALLOW_TF32: False, BLOCK_K: 32, BLOCK_M: 64, num_warps: 4, num_ctas: 1, num_stages: 2"


@pytest.mark.parametrize(("kernel", "pins"), [("triton_tem_fused_mm_0", True), ("triton_poi_fused_0", False)])
def test_pinned_template_is_compiled_again(kernel: str, *, pins: bool) -> None:
    from torch._inductor import config, select_algorithm

    found = []

    def backend(graph: Any, _: object) -> Any:
        given = [SimpleNamespace(description=one) for one in ("", *DESCRIPTIONS)]
        left = select_algorithm.filter_choices_by_desc_regex(cast("Any", given))
        found.append([one.description for one in left])
        return graph

    square = torch.compile(torch.square, backend=backend)
    square(torch.ones(2))
    with torch_names.templates_pinned({kernel: TEMPLATE}):
        square(torch.ones(2))
    square(torch.ones(2))
    every = ["", *DESCRIPTIONS]
    assert found == ([every, ["", DESCRIPTIONS[0]], every] if pins else [every])
    assert config.test_configs.autotune_choice_desc_regex is None


DESCRIPTIONS = [
    f"ACC_TYPE='tl.float32', ALLOW_TF32=False, BLOCK_K={k}, BLOCK_M={m}, num_stages=2, num_warps={warps}"
    for k, m, warps in [(32, 64, 4), (32, 64, 8), (32, 640, 4), (128, 64, 4)]
]
"""Descriptions of templates of torch 2.13."""


def test_inductor_without_its_setting_chooses_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "torch._inductor.config")
    monkeypatch.setattr(torch.compiler, "reset", lambda: pytest.fail("compiled again"))
    with torch_names.templates_pinned({"triton_tem_fused_mm_0": TEMPLATE}):
        pass


def test_process_ends_before_torchs_compile_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.compile_worker.subproc_pool import SubprocPool

    pool: Any = SubprocPool.__new__(SubprocPool)
    vars(pool).update(running=True, write_lock=nullcontext(), futures_lock=nullcontext(), pending_futures={})
    monkeypatch.setattr("os._exit", int)
    # While it runs, it asks for its process and waits for it.
    for known, at_exit in (({}, list), ({"_pool_set": {pool}}, pool.shutdown)):
        monkeypatch.setattr("atexit._run_exitfuncs", at_exit)
        stand_in(monkeypatch, "torch._inductor.async_compile", **known)
        watchdog._leave()


class Tuner:
    """Triton's `Autotuner` of a version without the attributes that tell the choice."""

    def run(self) -> int:
        return 3


@pytest.mark.parametrize("missing", ["Autotuner", "run", "best_config", "fn"])
def test_unknown_choice_of_an_autotuner_is_not_noted(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    kind: Any = type("Autotuner", (Tuner,), {} if missing == "best_config" else {"best_config": "BLOCK: 8"})
    if missing == "run":
        monkeypatch.delattr(Tuner, "run")
    stand_in(
        monkeypatch, "triton.runtime.autotuner", **({} if missing == "Autotuner" else {"Autotuner": kind})
    )
    noted: dict[str, str] = {}
    with compiler_names.choices_noted(noted.__setitem__):
        assert missing == "run" or kind().run() == 3
    assert noted == ({"kernel": "BLOCK: 8"} if missing == "fn" else {})


def test_facts_of_another_version_break_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    tuner: Any = type("CachingAutotuner", (Tuner,), {"launchers": [object()], "inductor_meta": None})
    stand_in(monkeypatch, "torch._inductor.runtime.triton_heuristics", CachingAutotuner=tuner)
    knobs: Any = SimpleNamespace(listener=None)
    stand_in(monkeypatch, "triton.knobs", compilation=knobs)
    with (
        compiler_names.choices_noted(lambda *_: None),
        compiler_names.triton_compilations_noted(lambda *_: None),
    ):
        assert tuner().run() == 3
        knobs.listener(milliseconds=3)


def test_compiled_kernel_tells_what_its_version_has(monkeypatch: pytest.MonkeyPatch) -> None:
    kind: Any = type("CompiledKernel", (), {})
    nameless, named = kind(), kind()
    named.metadata = SimpleNamespace(name="k")
    stand_in(monkeypatch, "triton.compiler.compiler", CompiledKernel=kind)
    unknown = compiler_names.CompiledKernel(None, None, None, "", b"")
    assert compiler_names.compiled_kernels() == {"k": [unknown]}
    assert nameless


def test_triton_without_inner_modules_has_no_code_and_no_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("compiler.compiler", "runtime.cache", "backends.nvidia", "profiler.flags"):
        stand_in(monkeypatch, f"triton.{name}")
    assert compiler_names.compiled_kernel_type() is None
    assert not compiler_names.proton_profiles()
    compiler_names.hash_own_files()
    monkeypatch.setenv("TRITON_PTXAS_PATH", torch.__file__)
    compiler_names.take_back_ptxas()


@pytest.mark.parametrize(("of_torch", "left"), [(True, None), (False, "/usr/bin/ptxas")])
def test_the_ptxas_of_torch_goes_with_compiled_code(
    monkeypatch: pytest.MonkeyPatch, left: str | None, *, of_torch: bool
) -> None:
    """A kernel of a later test would else be compiled by it."""
    path = str(Path(torch.__file__).parent / "bin" / "ptxas") if of_torch else "/usr/bin/ptxas"
    monkeypatch.setenv("TRITON_PTXAS_PATH", path)
    stand_in(monkeypatch, "torch._dynamo", reset=lambda: None)
    compiler_names.forget_compiled_code()
    assert os.environ.get("TRITON_PTXAS_PATH") == left


def test_compiled_code_is_forgotten_by_either_name(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(torch.compiler, "reset", lambda: calls.append("public"))
    monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)
    compiler_names.forget_compiled_code()
    assert calls == []
    stand_in(monkeypatch, "torch._dynamo")
    compiler_names.forget_compiled_code()
    stand_in(monkeypatch, "torch._dynamo", reset=lambda: calls.append("private"))
    compiler_names.forget_compiled_code()
    assert calls == ["public", "private"]


class Reporter:
    """A terminal of a pytest without `_tw` and `_numcollected`."""

    config = SimpleNamespace(pluginmanager=SimpleNamespace(get_plugin=lambda _: None))


def test_terminal_without_writer_has_columns_and_no_status_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "77")
    reporter: Any = Reporter()
    assert pytest_names.terminal_columns(reporter) == 77
    pytest_names.write_past_capture(reporter, lambda _: pytest.fail("written"))
    pytest_names.set_collected(reporter, 3)
    assert not vars(reporter)


@pytest.mark.parametrize(
    "call",
    [
        *(pytest_names.early_options, pytest_names.kept_failure, pytest_names.benchmarks_of),
        lambda node: xdist_names.process_of(SimpleNamespace(gateway=node)),
        lambda _: torch_names.end_allocations((0, 1)),
    ],
)
def test_missing_attribute_is_none(call: Callable[[Any], object]) -> None:
    assert call(SimpleNamespace()) is None


def test_calls_of_hooks_are_not_held_without_pluggys_name() -> None:
    with pytest_names.calls_held(SimpleNamespace(), lambda _: True) as can_hold:
        assert not can_hold
    hook = SimpleNamespace(_hookexec=lambda *arguments: arguments)
    with pytest_names.calls_held(hook, lambda call: call["held"]) as can_hold:
        assert can_hold
        assert hook._hookexec("name", [], {"held": True}, False) == []
        assert hook._hookexec("name", [], {"held": False}, False) == ("name", [], {"held": False}, False)


def test_reporter_is_the_public_one_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = pytest_names.reporter_type()
    monkeypatch.delattr(pytest, "TerminalReporter", raising=False)
    assert pytest_names.reporter_type() is kind
    monkeypatch.delattr("_pytest.terminal.TerminalReporter")
    assert pytest_names.reporter_type() is None


@pytest.mark.parametrize("distribution", [None, SimpleNamespace()])
def test_distribution_without_its_names_is_left_alone(distribution: object) -> None:
    manager: Any = SimpleNamespace(get_plugin=lambda _: distribution, hasplugin=lambda _: False)
    xdist_names.silence_distribution(manager)
    xdist_names.stop_distribution(manager)
    assert not vars(distribution or SimpleNamespace())


@pytest.mark.parametrize(("second", "same"), [(["a", "b"], True), (["b"], False)])
def test_tests_of_workers_are_compared_without_xdist(second: list[str], same: bool) -> None:
    scheduling: Any = SimpleNamespace(node2collection={1: ["a", "b"], 2: second})
    assert xdist_names.have_same_tests(scheduling) is same

"""The benchmark of environments in turn, with real environments and a fake GPU."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import benchmarks.environments.__main__ as environments
from against_environment import KERNELS, environment
from against_project import PLUGIN, TESTS
from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.measure.device.visible_gpus import VisibleGpu

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

TEST = f'"""o/fast-kernels#7: slower from 1 to 2."""\n{KERNELS}\ndef test_k(gpuperf): gpuperf.time(kernel)\n'
PAIR = "import pytest\n@pytest.mark.parametrize('number', range(2))\ndef test_pair(gpuperf, number):"


def test_a_regression_and_equal_environments_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = tmp_path / "cases"
    cases.mkdir()
    (cases / "test_slower.py").write_text(TEST)
    (cases / "test_same.py").write_text(TEST.replace("def test_k(gpuperf):", PAIR))
    monkeypatch.setattr(environments, "FOLDER", cases)
    monkeypatch.setattr(environments, "visible_gpus", lambda: [VisibleGpu("GPU-0", "nvidia-h200")])
    (tmp_path / "torch.py").touch()  # the fake GPU needs no torch, whose import takes seconds in each process
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{TESTS}:{PLUGIN}")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "fake_gpu,pytest_gpuperf.plugin.entry")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--gpuperf-counters=off -ogpuperf_budget=0.01")
    for name, version, time_us in (("new", 2, 12.0), ("twin", 2, 12.0), ("old", 1, 10.0)):
        environment(tmp_path / name, version, time_us, registers=16 * version)
    out = tmp_path / "results.json"
    for sides in ("slower={0}/old,{0}/new", "same={0}/twin,{0}/new"):
        monkeypatch.setattr(sys, "argv", ["", str(out), sides.format(tmp_path), "--pairs=2"])
        environments.main()
    results = environments.read(out)
    assert results.cases["slower"].tests["test_k"].verdict is Status.REGRESSED
    assert "copy_kernel: registers per thread 16 -> 32" in capsys.readouterr().out
    assert results.cases["same"].tests.keys() == {f"test_pair[{number}]" for number in range(2)}
    assert environments.same_summary(results).endswith(": 0 false alarms in 2 tests of equal environments.\n")
    assert environments.regressions_table(results).splitlines()[2] == (
        "|[o/fast-kernels#7](https://github.com/o/fast-kernels/issues/7)|fast-kernels 1 -> 2|1/1|+20.0±0.4|"
    )

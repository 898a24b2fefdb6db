"""`gpuperf init --gpus --shards`: jobs of the measuring workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner

from pytest_gpuperf.cli import main

if TYPE_CHECKING:
    from pathlib import Path


def written(folder: Path, *options: str) -> dict[str, Any]:
    """Return the measuring workflow of a new repository."""
    (folder / ".git").mkdir()
    result = CliRunner().invoke(main, ["init", str(folder), *options])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = yaml.safe_load((folder / ".github/workflows/gpuperf.yml").read_text("utf-8"))
    return found


def names(step: dict[str, Any], **matrix: object) -> str:
    text = str(step["with"]["name"])
    for key, value in matrix.items():
        text = text.replace(f"${{{{ matrix.{key} }}}}", str(value))
    return text


def test_each_model_has_a_job(tmp_path: Path) -> None:
    jobs = written(tmp_path, "--gpus", "h100, h200")["jobs"]
    assert jobs["measure"]["strategy"]["matrix"] == {"gpu": ["h100", "h200"]}
    assert jobs["merge"]["needs"] == "measure"
    against = yaml.safe_load((tmp_path / ".github/workflows/against.yml").read_text("utf-8"))
    assert against["jobs"]["measure"]["strategy"]["matrix"]["gpu"] == ["h100", "h200"]


def test_each_shard_has_a_job_an_artifact_and_a_queue(tmp_path: Path) -> None:
    measure = written(tmp_path, "--gpus=h100,h200", "--shards=3")["jobs"]["measure"]
    assert measure["strategy"]["matrix"] == {"gpu": ["h100", "h200"], "shard": [1, 2, 3]}
    (step,) = (one for one in measure["steps"] if one.get("name") == "Measure and judge")
    assert step["env"] == {"SHARD": "${{ matrix.shard }}"}
    assert '"--gpuperf-shard=$SHARD/3"' in step["run"]
    upload = measure["steps"][-1]
    assert len({names(upload, gpu=gpu, shard=shard) for gpu in "ab" for shard in (1, 2, 3)}) == 6
    assert "matrix.shard" in measure["concurrency"]["group"]


def test_joined_run_is_no_input_of_another_workflow(tmp_path: Path) -> None:
    merge = written(tmp_path, "--gpus=h100,h200")["jobs"]["merge"]
    assert merge["permissions"] == {}
    assert not merge["steps"][-1]["with"]["name"].startswith("gpuperf-")


def test_without_options_there_is_one_model_and_no_merge(tmp_path: Path) -> None:
    jobs = written(tmp_path)["jobs"]
    assert jobs["measure"]["strategy"]["matrix"] == {"gpu": ["gpu"]}
    assert "merge" not in jobs


@pytest.mark.parametrize("labels", ["a b", "a,a", "a,,b", "a,$(x)", "a,${{ b }}", "]"])
def test_strange_labels_are_refused(tmp_path: Path, labels: str) -> None:
    result = CliRunner().invoke(main, ["init", str(tmp_path), "--gpus", labels])
    assert result.exit_code == 2
    assert "expected different labels of runners" in result.stderr
    assert not [*tmp_path.iterdir()]

"""The workflows of `gpuperf init`, run step by step from a measurement to the comment on a pull request."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpuperf.cli.init.plan import packaged
from workflow_runner import BOT, REPOSITORY, ROOT, GitHub, WorkflowRun

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RECORDINGS = ROOT / "baselines" / "nvidia-h200" / "recordings"
SHA, FORK = "a" * 40, "stranger/kernels"
PYTHON = """#!/bin/sh
[ "$1 $2" = "-m venv" ] || exit 9
mkdir -p "$3/bin"
echo "PATH=$3/bin:\\$PATH" > "$3/bin/activate"
printf '#!/bin/sh\\n' > "$3/bin/pip"
cp "{tox}" "$3/bin/tox"
chmod +x "$3"/bin/*
"""
# The recording stands in for a measurement.
TOX = """#!/bin/sh
printf '%s\\n' "$@" > "{log}"
mkdir -p .gpuperf/runs/1
cp "{recording}" .gpuperf/runs/1/run.json
echo '<testsuites/>' > gpuperf-junit.xml
exit {status}
"""
GPUPERF = f"""#!{sys.executable}
import sys
sys.path.insert(0, {str(ROOT)!r})
from pytest_gpuperf.cli import main
main()
"""
WITHOUT_REPORT = f"""#!/bin/sh
[ "$1" = comment ] && exec {sys.executable} -c "{GPUPERF.partition(chr(10))[2]}" "$@"
"""
# Writes each file that it is asked for; quick, for tests of other steps.
INSTEAD = """#!/bin/sh
while [ $# -gt 0 ]; do if [ "$1" = -o ]; then echo '<!-- gpuperf: gpuperf -->' > "$2"; fi; shift; done
"""


class Project:
    """A repository with the baselines of this one, its runner with a GPU, and GitHub."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.api = GitHub()
        self.base = folder / "base"
        self.base.mkdir()
        (self.base / "baselines").symlink_to(ROOT / "baselines")
        (self.base / "pyproject.toml").write_text("[tool.pytest.ini_options]\n", encoding="utf-8")
        self.head = folder / "head"
        self.head.mkdir()
        self.log = folder / "arguments"

    def _run(self, name: str, github: dict[str, Any], **more: Any) -> WorkflowRun:
        place = self.folder / f"{name}-{len(list(self.folder.iterdir()))}"
        place.mkdir()
        (place / name).write_text(packaged(name), encoding="utf-8")
        return WorkflowRun(place / name, place, github, self.api, **more)

    def measure(
        self,
        event: dict[str, Any] | None = None,
        *,
        recording: str = "20261123-184134-bc38",
        status: int = 0,
        name: str = "gpuperf.yml",
        inputs: dict[str, str] | None = None,
        push: str = "",
    ) -> WorkflowRun:
        """Run a measuring workflow; `push` is the branch of a push."""
        tox, file = self.folder / "tox", RECORDINGS / f"{recording}.json"
        tox.write_text(TOX.format(recording=file, status=status, log=self.log), encoding="utf-8")
        github: dict[str, Any] = {
            "event_name": "workflow_dispatch" if inputs is not None else "pull_request",
            "event": event or {"pull_request": pull_of(REPOSITORY)},
        }
        if push:
            github = {
                "event_name": "push",
                "event": {"repository": {"default_branch": "main"}},
                "ref_name": push,
                "server_url": "https://github.com",
                "run_id": 77,
            }
        commands = {"python": PYTHON.format(tox=tox), "pip": "#!/bin/sh\n", "gpuperf": GPUPERF}
        return self._run(name, github, trees={"": self.head}, commands=commands, inputs=inputs or {})

    def comment(self, artifacts: dict[str, Path], gpuperf: str = GPUPERF, **event: Any) -> WorkflowRun:
        """Run the commenting workflow."""
        run = {
            "id": 77,
            "name": "gpuperf",
            "event": "pull_request",
            "conclusion": "success",
            "head_sha": SHA,
            "head_branch": "feature",
            "head_repository": {"full_name": REPOSITORY},
            "html_url": f"https://github.com/{REPOSITORY}/actions/runs/77",
        }
        return self._run(
            "comment.yml",
            {"event": {"workflow_run": {**run, **event}}},
            trees={"refs/heads/main": self.base},
            commands={"pip": "#!/bin/sh\n", "gpuperf": gpuperf},
            others={"77": artifacts},
        )

    def posted(self, number: int = 7) -> list[str]:
        """Return the comments of the workflow."""
        comments = self.api.comments.get(number, [])
        return [one["body"] for one in comments if one["user"]["login"] == BOT]


def pull_of(repository: str, base: str = "b" * 40) -> dict[str, Any]:
    return {"head": {"repo": {"full_name": repository}}, "base": {"sha": base}}


def artifact(folder: Path, content: bytes, name: str = "run.json") -> dict[str, Path]:
    place = folder / "artifact"
    place.mkdir()
    (place / name).write_bytes(content)
    return {"gpuperf-gpu": place}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    found = Project(tmp_path)
    yield found
    found.api.close()


def test_comment_is_posted_and_then_updated(project: Project) -> None:
    for number in range(150):
        project.api.pull(number + 1000, f"{number:040}")
    project.api.pull(7, SHA)
    for number in range(120):
        project.api.comment(7, f"remark {number}", "somebody")
    project.api.comment(7, "<!-- gpuperf: gpuperf -->\n\nnot yours", "somebody")
    first = project.measure()
    assert first.results == {"measure": "success", "history": "skipped"}
    done = project.comment(first.artifacts)
    assert done.results == {"find": "success", "judge": "success", "comment": "success"}, done.log
    [posted] = project.posted()
    assert posted.startswith("<!-- gpuperf: gpuperf -->\n\n## ✅ gpuperf: 37 pass")
    assert f"[measuring job](https://github.com/{REPOSITORY}/actions/runs/77)" in posted
    assert f"[Open the report](https://github.example/{REPOSITORY}/artifacts/report)" in posted
    assert "<table" in (done.artifacts["report"] / "report.html").read_text(encoding="utf-8")

    second = project.measure(recording="20261122-145918-8e58", status=1)
    assert second.results == {"measure": "failure", "history": "skipped"}
    project.comment(second.artifacts, conclusion="failure")
    [updated] = project.posted()
    assert "2 inconclusive, 3 improved, 35 pass" in updated
    assert "ended with **failure**" in updated
    assert project.api.changes == ["POST issues/7/comments", "PATCH issues/comments/122"]
    assert project.api.comments[7][120]["body"].endswith("not yours")


@pytest.mark.parametrize(
    "event",
    [{"event": "push"}, {"conclusion": "skipped"}, {"conclusion": "cancelled"}, {"head_sha": "c" * 40}],
)
def test_run_without_a_pull_request_gets_no_comment(project: Project, event: dict[str, str]) -> None:
    project.api.pull(7, SHA)
    done = project.comment({}, **event)
    assert (done.results["judge"], done.results["comment"]) == ("skipped", "skipped")
    assert not project.api.changes


@pytest.mark.parametrize("own", [True, False], ids=["own and fork", "reviewed fork"])
def test_pull_request_is_that_of_the_measured_commit(project: Project, own: bool) -> None:
    project.api.pull(6, SHA, repository=FORK)
    if own:
        project.api.pull(7, SHA)
    project.comment({}, INSTEAD, event="workflow_dispatch")
    assert list(project.api.comments) == [7 if own else 6]


def test_number_in_the_artifact_is_ignored(project: Project, tmp_path: Path) -> None:
    project.api.pull(7, SHA)
    files = artifact(tmp_path, b"number=8\n", name="number")
    (files["gpuperf-gpu"] / "comment.md").write_text("mine", encoding="utf-8")
    project.comment(files, INSTEAD)
    assert list(project.api.comments) == [7]
    assert "mine" not in project.posted()[0]


def test_odd_base_branch_is_refused(project: Project) -> None:
    project.api.pull(7, SHA, base="$(touch${IFS}x)\nnumber=8")
    assert project.comment({}).results["judge"] == "skipped"


@pytest.mark.parametrize("content", [None, b"::error::x\n@user <img>"], ids=["no artifact", "no run"])
def test_artifact_that_cannot_be_judged_is_told(
    project: Project, tmp_path: Path, content: bytes | None
) -> None:
    project.api.pull(7, SHA)
    artifacts = {} if content is None else artifact(tmp_path, content)
    done = project.comment(artifacts, WITHOUT_REPORT, conclusion="failure")
    assert done.results["comment"] == "success", done.log
    assert "gpuperf: nothing was judged" in project.posted()[0]
    assert "\n::" not in done.log


def test_code_of_a_fork_is_not_measured(project: Project) -> None:
    assert set(project.measure({"pull_request": pull_of(FORK)}).results.values()) == {"skipped"}


@pytest.mark.parametrize("name", ["gpuperf.yml", "against.yml"])
def test_measuring_job_has_no_permission(project: Project, name: str) -> None:
    workflow = project.measure({"pull_request": pull_of(FORK), "label": {"name": ""}}, name=name).workflow
    assert workflow["jobs"]["measure"]["permissions"] == {}


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def commit(project: Project) -> str:
    """Make the checkout of the pull request a git repository with the branch `origin/main`."""
    git(project.head, "init", "-q", "-b", "main")
    git(project.head, "commit", "-q", "--allow-empty", "-m", "old")
    found = git(project.head, "rev-parse", "HEAD")
    git(project.head, "update-ref", "refs/remotes/origin/main", found)
    git(project.head, "tag", "v1.2", found)
    return found


@pytest.mark.parametrize("branch", ["main", "feature"])
def test_history_gets_runs_of_the_main_branch_only(project: Project, commit: str, branch: str) -> None:
    remote = project.folder / "remote.git"
    git(project.folder, "clone", "-q", "--bare", str(project.head), str(remote))
    git(project.head, "remote", "add", "origin", str(remote))
    before = git(remote, "for-each-ref")
    done = project.measure(push=branch, status=1)
    if branch == "feature":
        assert done.results == {"measure": "failure", "history": "skipped"}
        assert git(remote, "for-each-ref") == before
        return
    assert done.results == {"measure": "failure", "history": "success"}, done.log
    assert git(remote, "for-each-ref", "--format=%(refname)").split() == [
        *("refs/heads/main", "refs/heads/perf-history", "refs/tags/v1.2")
    ]
    assert git(remote, "rev-parse", "main") == commit
    suite = git(remote, "ls-tree", "-r", "--name-only", "perf-history").splitlines()[0]
    assert suite.startswith("nvidia-h200/test_")
    assert f"https://github.com/{REPOSITORY}/actions/runs/77" in git(remote, "show", f"perf-history:{suite}")


def dispatch(project: Project, reference: str, tests: str = "") -> WorkflowRun:
    return project.measure({}, name="against.yml", inputs={"reference": reference, "tests": tests})


def label(project: Project, name: str, base: str) -> WorkflowRun:
    event = {"pull_request": pull_of(REPOSITORY, base), "label": {"name": name}}
    return project.measure(event, name="against.yml")


@pytest.mark.parametrize("reference", ["main", "v1.2", "commit"])
def test_named_tests_are_compared_with_a_reference(project: Project, commit: str, reference: str) -> None:
    names = "perf/test_a.py::test_b[4096-fp16]\n  perf/more"
    done = dispatch(project, commit if reference == "commit" else reference, names)
    assert done.results == {"measure": "success"}, done.log
    assert project.log.read_text(encoding="utf-8").splitlines() == [
        *("run", "-e", "gpuperf", "--", "perf/test_a.py::test_b[4096-fp16]", "perf/more"),
        *("--gpuperf-replay=never", f"--gpuperf-against={commit}"),
    ]


@pytest.mark.parametrize("tests", ["", "perf/test_a.py"])
def test_label_compares_with_the_base(project: Project, commit: str, tests: str) -> None:
    assert label(project, f"gpuperf-against {tests}".strip(), commit).results == {"measure": "success"}
    arguments = project.log.read_text(encoding="utf-8").splitlines()
    assert arguments[4:-2] == [tests or "perf"]
    assert arguments[-1] == f"--gpuperf-against={commit}"


def test_other_labels_measure_nothing(project: Project, commit: str) -> None:
    assert label(project, "bug", commit).results == {"measure": "skipped"}


@pytest.mark.parametrize(
    ("reference", "tests"),
    [
        *(("main", name) for name in ("$(touch x)", "`id`", "perf;id", "--co", "-p", "../x", "/etc", "a*b")),
        *((name, "") for name in ("--help", "-x", "$(id)", "main;id", "nowhere", "main^{/a}")),
    ],
)
def test_odd_name_stops_the_measurement(project: Project, commit: str, reference: str, tests: str) -> None:
    assert commit
    assert dispatch(project, reference, tests).results == {"measure": "failure"}
    assert not project.log.exists()


def test_comparison_has_a_comment_of_its_own(project: Project, commit: str) -> None:
    project.api.pull(7, SHA)
    project.api.comment(7, "<!-- gpuperf: gpuperf -->", BOT)
    done = dispatch(project, "main", "perf/test_a.py")
    assert commit
    project.comment(done.artifacts, WITHOUT_REPORT, name="gpuperf-against")
    assert project.posted()[1].startswith("<!-- gpuperf: gpuperf-against -->")
    assert "not measured" not in project.posted()[1]


def test_api_refuses_jobs_without_the_permission(project: Project) -> None:
    # As strict as GitHub, otherwise the permissions of the workflows prove nothing.
    url = f"/repos/{REPOSITORY}/issues/7/comments"
    assert project.api.answer("POST", url, {}, {"pull-requests": "read"})[0] == 403
    assert not project.api.comments

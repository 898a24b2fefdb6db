"""Runs GitHub workflows here: their scripts for real, their actions and GitHub's API as fakes.

Each job has a folder and a token of its own. The API knows the job's `permissions` by its token.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[1]
REPOSITORY = "owner/kernels"
BOT = "github-actions[bot]"
_TOKENS = re.compile(r"'(?:[^']|'')*'|&&|\|\||[!=]=|!|[A-Za-z_][\w.-]*\(?|[(),]|\d+")
_WORDS = {"&&": " and ", "||": " or ", "!": " not "}
GH = f"""#!/bin/sh
exec {sys.executable} {ROOT}/tests/fake_gh.py "$@"
"""


class GitHub:
    """The part of GitHub's REST API that the workflows use, on this machine."""

    def __init__(self) -> None:
        self.pulls: list[dict[str, Any]] = []
        self.comments: dict[int, list[dict[str, Any]]] = {}
        self.changes: list[str] = []
        """Methods and paths of the requests that changed something."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                body = json.loads(self.rfile.read(size)) if size else {}
                permissions = json.loads(self.headers["Authorization"].removeprefix("Bearer "))
                status, found = outer.answer(self.command, self.path, body, permissions)
                content = json.dumps(found).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PATCH = answer

            def log_message(self, format: str, *_: object) -> None:
                del format

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        # `shutdown` waits for the next look.
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._server.server_close()

    def pull(self, number: int, sha: str, *, repository: str = REPOSITORY, base: str = "main") -> None:
        """Open a pull request."""
        head = {"sha": sha, "repo": {"full_name": repository}}
        self.pulls.append({"number": number, "head": head, "base": {"ref": base}})

    def comment(self, number: int, body: str, author: str) -> dict[str, Any]:
        """Add a comment to a pull request."""
        identity = 1 + sum(map(len, self.comments.values()))
        added = {"id": identity, "user": {"login": author}, "body": body}
        self.comments.setdefault(number, []).append(added)
        return added

    def answer(
        self, method: str, url: str, body: Mapping[str, str], permissions: Mapping[str, str]
    ) -> tuple[int, Any]:
        """Answer one request, if the job has the permission."""
        parts = urlsplit(url)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        path = parts.path.removeprefix(f"/repos/{REPOSITORY}/")
        if permissions.get("pull-requests") not in (("write",) if method != "GET" else ("read", "write")):
            return 403, {"message": "Resource not accessible by integration"}
        if method != "GET":
            self.changes.append(f"{method} {path}")
        if path == "pulls" and asked["state"] == "open":
            return 200, _page(self.pulls, asked)
        if found := re.fullmatch(r"issues/(\d+)/comments", path):
            number = int(found[1])
            if method == "POST":
                return 201, self.comment(number, body["body"], BOT)
            return 200, _page(self.comments.get(number, []), asked)
        if found := re.fullmatch(r"issues/comments/(\d+)", path):
            [one] = [c for some in self.comments.values() for c in some if c["id"] == int(found[1])]
            one["body"] = body["body"]
            return 200, one
        return 404, {"message": "Not Found"}


def _page(items: list[dict[str, Any]], asked: Mapping[str, str]) -> list[dict[str, Any]]:
    size, page = int(asked["per_page"]), int(asked["page"])
    return items[(page - 1) * size : page * size]


@dataclass
class WorkflowRun:
    """One run of one workflow.

    Args:
        file: The workflow.
        folder: Where its jobs work.
        github: The context `github` of expressions, without a token.
        inputs: The context `inputs`.
        api: GitHub's API.
        trees: The content of each reference that may be checked out; the empty one is the event's own.
        commands: Scripts that replace commands of the runner, by name.
        others: Artifacts of other workflow runs, by the id of the run.
    """

    file: Path
    folder: Path
    github: dict[str, Any]
    api: GitHub
    trees: Mapping[str, Path]
    inputs: dict[str, str] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, dict[str, Path]] = field(default_factory=dict)
    artifacts: dict[str, Path] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    log: str = ""

    def __post_init__(self) -> None:
        """Run all jobs, each after those that it needs."""
        # YAML 1.1 takes the key `on` for True.
        self.workflow = yaml.safe_load(self.file.read_text(encoding="utf-8"))
        assert self.workflow["permissions"] == {}
        outputs: dict[str, dict[str, Any]] = {}
        for name, job in self.workflow["jobs"].items():
            needs = job.get("needs", [])
            needs = [needs] if isinstance(needs, str) else needs
            context: dict[str, Any] = {
                "inputs": self.inputs,
                "needs": {need: {"outputs": outputs[need]} for need in needs},
                "github": {**self.github, "repository": REPOSITORY, "token": json.dumps(job["permissions"])},
            }
            condition = job.get("if", "true")
            ready = "cancelled()" in condition or all(self.results[need] == "success" for need in needs)
            if not ready or not evaluate(condition, context):
                self.results[name], outputs[name] = "skipped", {}
                continue
            matrix = job.get("strategy", {}).get("matrix", {})
            for number, values in enumerate(product(*matrix.values())):
                place = self.folder / f"{name}-{number}"
                combined = {**context, "matrix": dict(zip(matrix, values, strict=True))}
                self.results[name], outputs[name] = self._job(job, place, combined)

    def _job(self, job: Any, place: Path, context: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        (place / "temp").mkdir(parents=True)
        (place / "work").mkdir()
        context = {**context, "runner": {"temp": str(place / "temp")}, "steps": {}}
        result = "success"
        for step in job["steps"]:
            if result != "success" and not evaluate(step.get("if", "false"), context):
                continue
            passed, found = self._step(step, place, context)
            context["steps"][step.get("id", "")] = {"outputs": found}
            if not passed and not step.get("continue-on-error"):
                result = "failure"
        outputs = {name: filled(value, context) for name, value in job.get("outputs", {}).items()}
        return result, outputs

    def _step(self, step: Any, place: Path, context: dict[str, Any]) -> tuple[bool, dict[str, str]]:
        if "uses" in step:
            action = step["uses"].partition("@")[0].removeprefix("actions/").replace("-", "_")
            inputs = {name: filled(value, context) for name, value in step.get("with", {}).items()}
            done: tuple[bool, dict[str, str]] = getattr(self, f"_{action}")(place, inputs)
            return done
        assert "${{" not in step["run"], "an expression in a script"
        assert self.workflow["defaults"] == {"run": {"shell": "bash"}}
        tools, output = place / "tools", place / "output"
        tools.mkdir(exist_ok=True)
        output.write_text("", encoding="utf-8")
        for name, text in {"gh": GH, **self.commands}.items():
            (tools / name).write_text(text, encoding="utf-8")
            (tools / name).chmod(0o755)
        environment = {
            "PATH": f"{tools}:{os.environ['PATH']}",
            "GITHUB_API_URL": self.api.url,
            "GITHUB_REPOSITORY": REPOSITORY,
            "HOME": str(place),
            "GITHUB_OUTPUT": str(output),
            "RUNNER_TEMP": str(place / "temp"),
            **{name: filled(value, context) for name, value in step.get("env", {}).items()},
        }
        # As GitHub's runner starts `shell: bash`.
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        ran = subprocess.run(
            command, cwd=place / "work", env=environment, capture_output=True, text=True, check=False
        )
        self.log += ran.stdout + ran.stderr
        lines = output.read_text(encoding="utf-8").splitlines()
        return ran.returncode == 0, dict(line.split("=", 1) for line in lines)

    def _checkout(self, place: Path, inputs: Mapping[str, str]) -> tuple[bool, dict[str, str]]:
        assert inputs["persist-credentials"] == "False"
        shutil.copytree(self.trees[inputs.get("ref", "")], place / "work", dirs_exist_ok=True, symlinks=True)
        return True, {}

    def _setup_python(self, *_: object) -> tuple[bool, dict[str, str]]:
        return True, {}

    def _upload_artifact(self, place: Path, inputs: Mapping[str, str]) -> tuple[bool, dict[str, str]]:
        found = [path for pattern in inputs["path"].split() for path in (place / "work").glob(pattern)]
        hidden = inputs.get("include-hidden-files") == "True"
        found = [path for path in found if hidden or "/." not in path.relative_to(place).as_posix()]
        if not found:
            return inputs.get("if-no-files-found") != "error", {}
        artifact = place / "artifacts" / inputs["name"]
        common = Path(os.path.commonpath([path.parent for path in found]))
        for path in found:
            target = artifact / path.relative_to(common)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        assert inputs["name"] not in self.artifacts, "two artifacts of one name"
        self.artifacts[inputs["name"]] = artifact
        return True, {"artifact-url": f"https://github.example/{REPOSITORY}/artifacts/{inputs['name']}"}

    def _download_artifact(self, place: Path, inputs: Mapping[str, str]) -> tuple[bool, dict[str, str]]:
        run = inputs.get("run-id")
        if run is not None:
            assert json.loads(inputs["github-token"]).get("actions") == "read"
        artifacts = self.artifacts if run is None else self.others.get(run, {})
        pattern = inputs.get("pattern", inputs.get("name", "*"))
        target = Path(inputs.get("path", place / "work"))
        found = fnmatch.filter(artifacts, pattern)
        for name in found:
            # A single artifact that is named is not in a folder of its name.
            folder = target if "name" in inputs else target / name
            shutil.copytree(artifacts[name], folder, dirs_exist_ok=True)
        return bool(found), {}


def filled(value: object, context: Mapping[str, Any]) -> str:
    """Return a text with its expressions evaluated."""

    def replace(found: re.Match[str]) -> str:
        result = evaluate(found[1], context)
        return "" if result is None else str(result)

    return re.sub(r"\$\{\{(.*?)\}\}", replace, str(value))


def evaluate(expression: str, context: Mapping[str, Any]) -> Any:
    """Evaluate an expression of GitHub Actions: names, strings, comparisons and a few functions."""
    return eval(
        "".join(_translated(str(expression))), {**_FUNCTIONS, "get": lambda name: _get(context, name)}
    )


def _translated(expression: str) -> Iterator[str]:
    for token in _TOKENS.findall(expression):
        if token in _WORDS:
            yield _WORDS[token]
        elif token[0] == "'":
            yield repr(token[1:-1].replace("''", "'"))
        elif token in ("True", "true", "false"):
            yield str(token.lower() == "true")
        elif re.match(r"[A-Za-z_]", token) and token[-1] != "(":
            yield f"get({token!r})"
        else:
            yield token


def _get(context: Mapping[str, Any], name: str) -> Any:
    first, *rest = name.split(".")
    value = context[first]
    for part in rest:
        value = value.get(part) if isinstance(value, dict) else None
    return value


_FUNCTIONS = {
    "__builtins__": {},
    "always": lambda: True,
    "cancelled": lambda: False,
    "contains": lambda items, item: item in items,
    "fromJSON": json.loads,
    "startsWith": lambda text, start: str(text or "").lower().startswith(start.lower()),
}

"""Try solutions of public problems: how many problem files of KernelBench and of GPU MODE work.

git clone https://github.com/ScalingIntelligence/KernelBench FOLDER/KernelBench
git clone https://github.com/gpu-mode/reference-kernels FOLDER/reference-kernels
python -m benchmarks.public_problems FOLDER    # on a GPU; writes benchmarks/results/public_problems.json
python -m benchmarks.public_problems           # anywhere: prints the tables

KernelBench has no solutions: `same` is its Model under the name of the solution, `compiled` is the same by
torch.compile. GPU MODE has some; wrong and fooling ones among them must not be accepted. The own problems of
`suites/problems` come last, except those that the documentation shows.
"""

from __future__ import annotations

import datetime
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import msgspec

from benchmarks import results_file
from benchmarks.markdown import provenance, table, us
from pytest_gpuperf.features.trial.record import TrialResult
from pytest_gpuperf.features.trial.report import trial_report
from pytest_gpuperf.records import Environment, Record
from pytest_gpuperf.records.files import write_files
from pytest_gpuperf.report.forms import render
from pytest_gpuperf.report.table import Screen

SCHEMA = 1
ROOT = Path(__file__).parents[1]
FILE = Path(__file__).parent / "results" / "public_problems.json"
JOBS = 6
"""Trials that start at once; they wait for each other's measurements."""
LAST_S = 20
"""Seconds for the trials that run when the time is up."""
SHOWN = ("own/softmax/good",)
"""Trials that the documentation shows; they have the default options."""
BRIEF = ("--budget", "0.15", "--rounds", "2", "--seeds", "2", "--timeout", "60")
LEVELS = {
    "level2": ("12", "14", "22", "29", "33", "40"),
    "level3": ("1", "9", "43"),
    "level1": ("1", "88", "95", "40", "50", "26", "97", "23", "36", "47", "51", "89", "19"),
}
"""Problems of KernelBench by number, large ones last."""
COMPILED = ("26", "88", "12")
"""Those whose solution is compiled."""
SAME = "\n\nclass ModelNew(Model):\n    pass\n"
BY_COMPILER = """

class ModelNew(nn.Module):
    def __init__(self, *args):
        super().__init__()
        self.inner = torch.compile(Model(*args))

    def forward(self, *args):
        return self.inner(*args)
"""
PMPP, LINALG = "problems/pmpp_v2", "problems/linalg"
TASKS = (
    (f"{PMPP}/vectoradd_py", "solutions/correct/submission_triton.py", "size=4096,seed=1", True),
    (f"{PMPP}/histogram_py", "submission.py", "size=2621440,contention=10,seed=5", True),
    # It adds into an output that nobody clears: only its first call is right.
    (f"{PMPP}/vectorsum_py", "submission.py", "size=1638400,seed=5", False),
    (f"{PMPP}/sort_py", "submission.py", "size=1000000,seed=5", True),
    # It computes in TF32, which the problem's own check refuses.
    (f"{PMPP}/conv2d_py", "submission.py", "size=128,kernelsize=8,channels=16,batch=2,seed=5", False),
    (f"{PMPP}/grayscale_py", "submission.py", "size=1024,seed=5", True),
    (f"{PMPP}/matmul_py", "submission.py", "m=1024,n=1024,k=1024,seed=5", True),
    (f"{PMPP}/prefixsum_py", "submission.py", "size=1048576,seed=5", True),
    (f"{LINALG}/qr_py", "submission.py", "batch=20,n=32,cond=1,seed=5", True),
    (f"{LINALG}/cholesky_py", "submission.py", "batch=16,n=512,cond=2,seed=5", True),
    (
        "problems/bioml/trimul",
        "submission.py",
        "seqlen=128,bs=1,dim=128,hiddendim=128,seed=5,nomask=True,distribution=normal",
        True,
    ),
    (f"{PMPP}/vectorsum_py", "solutions/wrong/cheat.py", "size=1638400,seed=5", False),
    (f"{PMPP}/matmul_py", "solutions/wrong/low-precision.py", "m=1024,n=1024,k=1024,seed=5", False),
    (f"{PMPP}/histogram_py", "solutions/wrong/empty.py", "size=2621440,contention=10,seed=5", False),
    (f"{PMPP}/vectoradd_py", "submission.py", "size=2048,seed=1", True),
)
"""Task, solution, case, and whether it has to be accepted."""
LONGEST_WHY = 160
"""Characters of a reason in the summary."""
PLACES = {"KernelBench/": "KernelBench", "reference-kernels/": "GPU MODE"}
OWN = {"good": True, "slow": True, "wrong": False, "fooling": False}


@dataclass(frozen=True)
class Trial:
    """One solution to try."""

    name: str
    problem: Path
    solution: Path
    case: str
    accepted: bool
    """True if it has to be accepted."""


class Outcome(Record, frozen=True, kw_only=True):
    """Outcome of one trial."""

    accepted: bool
    """True if the solution has to be accepted."""
    status: int
    """Exit status."""
    seconds: float
    """Wall clock, with the wait for other trials."""
    result: TrialResult | None = None
    error: str = ""
    """Message of exit status 2."""

    @property
    def verdict(self) -> str:
        """Verdict, or `error` if there is none."""
        return self.result.verdict if self.result is not None else "error"

    @property
    def why(self) -> str:
        """Begin of the first reason."""
        reasons = self.result.reasons if self.result is not None else (self.error,)
        line = next(iter(reasons), "").partition("\n")[0]
        return line if len(line) <= LONGEST_WHY else f"{line[:LONGEST_WHY]}…"

    @property
    def works(self) -> bool:
        """True if the verdict is the right one."""
        return self.status == (0 if self.accepted else 1)


class Results(Record, frozen=True, kw_only=True):
    """Results of one run."""

    schema: int
    date: str
    """UTC, ISO 8601."""
    environment: Environment
    trials: dict[str, Outcome]
    """By the name of problem and solution."""


def trials_in(folder: Path, made: Path) -> list[Trial]:
    """List the trials.

    Args:
        folder: Holds the checkouts.
        made: Folder for solutions that are made here.
    """
    own = [
        Trial(f"own/{path.name}/{name}", _own_problem(path), path / f"{name}.py", "", accepted)
        for path in sorted((ROOT / "suites" / "problems").glob("[a-z]*"))
        for name, accepted in OWN.items()
        if (path / f"{name}.py").exists()
    ]
    kernelbench = []
    for level, numbers in LEVELS.items():
        for number in numbers:
            (problem,) = (folder / "KernelBench" / "KernelBench" / level).glob(f"{number}_*.py")
            kind = "compiled" if number in COMPILED else "same"
            solution = made / f"{level}_{kind}_{problem.name}"
            text = problem.read_text(encoding="utf-8")
            solution.write_text(text + (BY_COMPILER if kind == "compiled" else SAME), encoding="utf-8")
            kernelbench.append(Trial(f"KernelBench/{level}/{number}/{kind}", problem, solution, "", True))
    gpu_mode = []
    for task, solution_name, case, accepted in TASKS:
        path = folder / "reference-kernels" / task
        name = f"{task.removeprefix('problems/')}/{Path(solution_name).stem}"
        gpu_mode.append(
            Trial(f"reference-kernels/{name}", path / "reference.py", path / solution_name, case, accepted)
        )
    # If the time is too short for all, the last ones are left out.
    public = [trial for pair in zip_longest(kernelbench, gpu_mode) for trial in pair if trial is not None]
    return [
        *(trial for trial in own if trial.name in SHOWN),
        *public,
        *(trial for trial in own if trial.name not in SHOWN),
    ]


def _own_problem(folder: Path) -> Path:
    return next(path for path in folder.glob("*.py") if path.stem in ("problem", "reference"))


def tried(trial: Trial, until: float) -> Outcome | None:
    """Run one trial; None if the time was up before its end."""
    begin = time.monotonic()
    if begin > until:
        return None
    command = [sys.executable, "-c", "from pytest_gpuperf.cli import main; main()", "try"]
    command += [str(trial.solution), "--reference", str(trial.problem), "--json"]
    command += [] if trial.name in SHOWN else BRIEF
    command += ["--case", trial.case] if trial.case else []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            out, err = process.communicate(timeout=until + LAST_S - begin)
        except subprocess.TimeoutExpired:
            # It ends its own process in order.
            process.terminate()
            process.communicate()
            return None
    return Outcome(
        accepted=trial.accepted,
        status=process.returncode,
        seconds=round(time.monotonic() - begin, 1),
        result=msgspec.json.decode(out, type=TrialResult) if out else None,
        error=err.strip()[:2000],
    )


def measure(folder: Path, seconds: float, words: list[str]) -> None:
    """Run all trials, and write the results after each.

    Args:
        folder: Holds the checkouts.
        seconds: After this time no further trial starts.
        words: Parts of names of trials to run; empty for all.
    """
    from pytest_gpuperf.measure.device.environment import environment
    from pytest_gpuperf.measure.device.gpu_identity import gpu_info

    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as made, ThreadPoolExecutor(JOBS) as pool:
        trials = [
            trial
            for trial in trials_in(folder, Path(made))
            if not words or any(word in trial.name for word in words)
        ]
        results = Results(
            schema=SCHEMA,
            date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            environment=environment(gpu_info(), ROOT, ""),
            trials={},
        )
        running = {pool.submit(tried, trial, until): trial.name for trial in trials}
        for done in as_completed(running):
            outcome = done.result()
            if outcome is not None:
                results.trials[running[done]] = outcome
                write_files({FILE: results_file.encode(results)})
                print(f"{running[done]}: exit status {outcome.status}, {outcome.seconds} s", flush=True)


def read(path: Path) -> Results:
    """Read the file; see `benchmarks.results_file.read`."""
    return results_file.read(path, Results, schema=SCHEMA)


def summary(results: Results) -> str:
    """Return the verdicts by collection."""
    lines = [f"- {provenance(results.environment, results.date)}"]
    for place, title in PLACES.items():
        of_place = {name: trial for name, trial in results.trials.items() if name.startswith(place)}
        counts = Counter(trial.verdict for trial in of_place.values())
        problems = {name.rpartition("/")[0] for name in of_place}
        found = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items()))
        lines.append(
            f"- {title}: {len(problems)} problems, {len(of_place)} solutions: {found or 'none tried'}"
        )
    return "".join(f"{line}\n" for line in lines)


def shown(results: Results, name: str) -> str:
    """Show the output of a trial with the default options, or say that there is none."""
    trial = results.trials.get(f"own/softmax/{name}")
    if trial is None or trial.result is None:
        return "Not measured yet.\n"
    folder = "suites/problems/softmax"
    text = render(trial_report(trial.result), "text", Screen(100))
    return f"```text\n$ gpuperf try {folder}/{name}.py --reference {folder}/problem.py\n{text}```\n"


def outcomes_table(results: Results) -> str:
    """Format a row for each trial."""
    rows = []
    for name, trial in results.trials.items():
        found, times = trial.result, ["", "", ""]
        case = next((case for case in found.cases if case.speed_up is not None), None) if found else None
        if case is not None and case.speed_up:
            times = [us(case.reference_us), us(case.solution_us)]
            times.append(f"{case.speed_up.value:.3f}")
        verdict = found.verdict if found is not None else trial.error.splitlines()[-1][:80]
        rows.append(
            (f"`{name}`", verdict + ("" if trial.works else " **!**"), *times, f"{trial.seconds:.0f}")
        )
    return table(("problem", "verdict", "reference, µs", "solution, µs", "speed-up", "s"), rows)


def main() -> None:
    """Measure, or print the tables."""
    if len(sys.argv) > 1:
        seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 3600.0
        measure(Path(sys.argv[1]), seconds, sys.argv[3:])
    results = read(FILE)
    print(summary(results), outcomes_table(results), sep="\n")
    for name, trial in results.trials.items():
        if not trial.works:
            print(f"{name}: status {trial.status}: {trial.why}")


if __name__ == "__main__":
    main()

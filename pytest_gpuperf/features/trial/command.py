"""`gpuperf try`: check and time a solution against its problem file."""

from __future__ import annotations

import secrets
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import click

from pytest_gpuperf.cli.output import output_form, show
from pytest_gpuperf.errors import NoGpuError
from pytest_gpuperf.settings.options import MAX_TIMEOUT_S, MODES

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
SEEDS = 2**31
NUMBER, SECONDS = click.IntRange(1, 100), click.FloatRange(0.01, MAX_TIMEOUT_S)
_option = partial(click.option, show_default=True)


@click.command("try")
@click.argument("solution", type=FILE)
@click.option("--reference", "problem", type=FILE, required=True, help="Name the problem file.")
@_option("--timeout", type=SECONDS, default=300, help="Limit the seconds of a case, imports included.")
@_option("--seeds", type=NUMBER, default=3, help="Check this many inputs in each case.")
@_option("--rounds", type=NUMBER, default=4, help="Time reference and solution in turn on this many inputs.")
@_option("--budget", "budget_s", type=SECONDS, default=1.0, help="Limit the seconds of a measurement.")
@_option("--mode", type=click.Choice(MODES), default="auto", help="Choose the timing mode.")
@click.option(
    "--case",
    "given",
    multiple=True,
    metavar="NAME=VALUE,…",
    help="Set the arguments of generate_input, in place of the cases of task.yml; repeatable.",
)
@click.option("--rtol", type=click.FloatRange(0, 1e6), help="Set the relative tolerance.")
@click.option("--atol", type=click.FloatRange(0, 1e300), help="Set the absolute tolerance.")
@click.option("--seed", type=click.IntRange(0, SEEDS - 1), help="Set the first seed (default: a random one).")
@output_form
@click.pass_context
def command(
    context: click.Context,
    /,
    solution: Path,
    problem: Path,
    timeout: float,
    given: tuple[str, ...],
    seed: int | None,
    form: str,
    **limits: Any,
) -> None:
    """Check and time a solution against its problem file.

    The problem has the form of KernelBench (Model, get_inputs, get_init_inputs; the solution ModelNew) or of
    GPU MODE's reference kernels (generate_input, ref_kernel; the solution custom_kernel), whose task.yml next
    to it names the cases. Exit status: 0 if the solution is right and its time is not refused, 1 if not, 2 if
    nothing could be tried.
    """
    from pytest_gpuperf.features.trial.cases import cases_of, read_task
    from pytest_gpuperf.features.trial.problem_forms import form_of
    from pytest_gpuperf.features.trial.record import TrialPlan
    from pytest_gpuperf.features.trial.report import trial_report
    from pytest_gpuperf.features.trial.trial_process import try_cases
    from pytest_gpuperf.features.trial.verdict import judge_trial
    from pytest_gpuperf.measure.device.gpu_detection import may_measure

    kind = form_of(problem)
    task = read_task(problem) if kind == "gpu-mode" and not given else None
    cases = cases_of(kind, task, given)
    if not may_measure():
        raise NoGpuError(
            "torch finds no GPU that it can use", expected="a CUDA GPU", next_step="type gpuperf doctor"
        )
    with tempfile.TemporaryDirectory(prefix="gpuperf-try-") as name:
        plan = TrialPlan(
            problem=str(problem.resolve()),
            solution=str(solution.resolve()),
            form=kind,
            cases=cases,
            seed=secrets.randbelow(SEEDS) if seed is None else seed,
            **limits,
        )
        result = judge_trial(plan, try_cases(plan, Path(name), timeout, _show_progress))
    show(trial_report(result), form)
    context.exit(0 if result.verdict == "accepted" else 1)


def _show_progress(done: int) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{done} cases done\r", err=True, nl=False)

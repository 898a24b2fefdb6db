"""`gpuperf fleet simulate`: from the baselines to plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_gpuperf.baseline.durations import expected_durations, load_durations
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.counters import STATIC_SOURCE
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.report.show import count as counted
from pytest_gpuperf.session.fleet.messages import Test
from pytest_gpuperf.session.fleet.simulation import repeated, simulate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.cli.project import Project
    from pytest_gpuperf.session.fleet.simulation import Costs


def plans_of(
    project: Project,
    models: Sequence[str],
    names: Sequence[str],
    sizes: Sequence[int],
    count: int | None,
    costs: Costs,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a plan for each model and each number of GPUs, and facts about them.

    Args:
        project: The project.
        models: Models of GPU; empty for all that have baselines.
        names: Files, folders or node ids; empty for all tests.
        sizes: Numbers of GPUs.
        count: Number of tests; None for those of the baselines.
        costs: The assumed costs.

    Raises:
        GpuperfError: No baseline fits, or one is broken.
    """
    if not project.store.slugs():
        raise GpuperfError(
            f"there is no baseline in {show_path(project.store.root)}",
            next_step="type `pytest --gpuperf --gpuperf-update=new` on a machine with a GPU",
        )
    asked = models or [slug for slug in project.store.slugs() if slug != STATIC_SOURCE]
    plans: list[dict[str, Any]] = []
    notes = []
    for model in asked:
        tests = [Test(nodeid) for nodeid in _tests(project, model, names)]
        durations = load_durations(project.store, model)
        unknown = sum(test.nodeid not in durations for test in tests)
        if unknown:
            usual_s = expected_durations([""], durations)[""]
            notes.append(
                f"{model}: the baselines of {unknown} of {counted(len(tests), 'test')} have no duration yet, "
                f"so {usual_s:g} s are assumed for each"
            )
        if count is not None:
            tests = repeated(tests, count)
        for gpus in sizes:
            plan = simulate(tests, durations, gpus, costs)
            plans.append(
                {
                    "gpu": model,
                    "gpus": plan.gpus,
                    "tests": plan.tests,
                    "groups": plan.groups,
                    "test_seconds": plan.test_s,
                    "seconds": plan.seconds,
                    "utilisation_pct": plan.utilisation_pct,
                    "limited_by": plan.limit,
                }
            )
    notes.append(
        f"assumed: {costs.start_s:g} s to start a process, and of the scheduler {costs.group_ms:g} ms for "
        f"each group and {costs.test_ms:g} ms for each test"
    )
    return plans, notes


def _tests(project: Project, model: str, names: Sequence[str]) -> list[str]:
    store = project.store
    baselines = (store.load(model, suite) for suite in store.suites(model))
    known = [nodeid for baseline in baselines if baseline is not None for nodeid in baseline.tests]
    wanted = [name.removeprefix("./").rstrip("/") for name in names]
    found = [nodeid for nodeid in known if not wanted or any(_is_in(nodeid, name) for name in wanted)]
    if not found:
        raise GpuperfError(
            f"{show_path(store.root)} has no baseline of {' '.join(names) or 'any test'} for {model}",
            expected=f"one of {', '.join(store.slugs())}" if not known else "a file, folder or node id",
            next_step="type `gpuperf baseline status` to list them",
        )
    return found


def _is_in(nodeid: str, name: str) -> bool:
    return name in ("", ".", nodeid) or nodeid.startswith((f"{name}/", f"{name}::", f"{name}["))

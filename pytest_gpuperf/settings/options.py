"""All command-line options and ini keys; `Settings` has their values."""

from __future__ import annotations

import shlex
import sys

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.registry import Option, registry

MAX_TIMEOUT_S = 10**6
"""Longest time of a test, in seconds."""
MODES = ("auto", "hot", "cold", "queued", "kernels", "host")
"""Choices of `--gpuperf-mode`, and of `mode=` and `gpuperf try --mode`."""


OPTIONS = (
    Option(
        "counters",
        "auto",
        "hardware counters: 'ncu' runs the tests once more under Nsight Compute, 'cupti' profiles in the "
        "same process; both fail tests whose counters cannot be read; 'auto' is CUPTI, after the tests ncu "
        "for calls that CUPTI could not read, and warns if neither works; 'off' only times",
        choices=("auto", "ncu", "cupti", "off"),
    ),
    Option(
        "mode",
        "auto",
        "timing mode of tests that name none: 'hot' (CUDA graph of calls), 'cold' (L2 flushed before each), "
        "'queued' (event pairs around calls), 'kernels' (CUPTI's times), 'host' (the host's clock); 'auto' "
        "is hot if the callable can be captured, else kernels",
        choices=MODES,
    ),
    Option(
        "budget",
        "1",
        "seconds that one time() call may measure, without the warm-up; it stops earlier when it is precise "
        "enough",
        metavar="SECONDS",
        key_only=True,
    ),
    Option(
        "timeout",
        "600",
        "seconds that one test may take before its process is ended; 0: any time; without effect under -n 0, "
        "-s and --pdb",
        metavar="SECONDS",
    ),
    Option(
        "shard",
        "",
        "run one part of the tests, 2/5 for the second of five; the parts take about the same time",
        metavar="PART",
        unset="all tests",
        asks=True,
    ),
    Option(
        "tolerance",
        "0",
        "accepted slowdown, in percent, even if it is certain, for tests that name none; 0: none",
        metavar="PCT",
        key_only=True,
    ),
    Option(
        "strict",
        "no",
        "fail also what is not decided: inconclusive verdicts, lost baselines, tests that vanished",
        switch=True,
    ),
    Option(
        "verify",
        "auto",
        "verify timed calls: 'auto' fails a test if it is proved that they left work out, and warns of "
        "doubts; 'strict' fails for both and unverified times; 'off' skips it",
        choices=("auto", "strict", "off"),
        key_only=True,
    ),
    Option(
        "check",
        "auto",
        "'always': without --gpuperf tests on a GPU check outputs and time nothing; 'auto': they skip",
        choices=("auto", "always"),
        key_only=True,
    ),
    Option(
        "baselines",
        "baselines",
        "folder of the baseline files, below the rootdir",
        metavar="DIR",
        key_only=True,
    ),
    Option(
        "update",
        "never",
        "after the run accept its measurements as baseline: 'new' tests, 'changed' ones too, or 'all'; "
        "refused if CI is set",
        choices=("never", "new", "changed", "all"),
        asks=True,
    ),
    Option(
        "replay",
        "auto",
        "RUN judges a recorded run (id, run.json, folder, or 'latest') instead of measuring; 'auto' replays "
        "the newest recording if there is no GPU; 'never' requires a GPU",
        metavar="RUN",
    ),
    Option(
        "replay-gpu",
        "",
        "without a GPU, replay the newest recordings of this model, such as nvidia-h200",
        metavar="MODEL",
        key_only=True,
    ),
    Option(
        "against",
        "",
        "compare with a git commit, branch or tag, or another virtual environment ([python:]PATH, "
        "[python:]PATH@REF): old and new code are timed in turn",
        metavar="REF",
        unset="none",
        asks=True,
    ),
    Option(
        "build",
        "",
        "builds old code for a comparison in turn: {prefix} stands for a folder for its packages, as in "
        "`pip install --no-deps --no-build-isolation --target {prefix} .`",
        metavar="COMMAND",
        unset="nothing is built",
        key_only=True,
    ),
    Option(
        "settle-seconds",
        "",
        "seconds that a card may spend on settling suspects; 0: none is settled",
        metavar="SECONDS",
        unset="300, or twice the time of the tests if that is more",
        key_only=True,
    ),
    Option(
        "ncu",
        "",
        "the ncu to use",
        metavar="PATH",
        unset="on PATH or in the CUDA installation",
        key_only=True,
    ),
    Option(
        "preset",
        "default",
        "presets of metrics to read, unless a test names its own, separated by commas; `gpuperf metrics "
        "--help` lists them",
        metavar="NAMES",
        key_only=True,
    ),
    Option(
        "metrics",
        "",
        "more metrics to read for every test: raw ncu names or short names, separated by commas",
        metavar="NAMES",
        unset="none",
    ),
    Option("brief", "no", "show at most ten lines for each failure, and for the summary", switch=True),
)


def all_options() -> tuple[Option, ...]:
    """Return the options of the core and of the features."""
    return (*OPTIONS, *registry().options)


def add_options(parser: pytest.Parser) -> None:
    """Declare the options and their ini keys."""
    group = parser.getgroup("gpuperf", "GPU kernel performance (pytest-gpuperf)")
    group.addoption(
        "--gpuperf",
        action="store_true",
        default=None,
        dest="gpuperf",
        help="check, time and profile GPU kernels and judge them against their baselines "
        "(default: off; ini: gpuperf)",
    )
    parser.addini("gpuperf", "turn --gpuperf on for every run", type="bool", default=False)
    for option in all_options():
        text = option.help if option.key_only else f"same as {option.flag}"
        parser.addini(option.ini, text, default=option.default)
        if option.key_only:
            continue
        default = option.default or option.unset
        shown = f"{option.help} (default: {default}; ini: {option.ini})".replace("%", "%%")
        value = {"metavar": option.metavar or None, "choices": option.choices or None}
        kind = {"action": "store_const", "const": "yes"} if option.switch else value
        group.addoption(option.flag, dest=option.ini, default=None, help=shown, **kind)


def number_of(key: str, text: str, *, above_0: bool = False, most: float = sys.float_info.max) -> float:
    """Return the value of an option that is a number.

    Args:
        key: The option or its ini key.
        text: The value.
        above_0: True if 0 is refused.
        most: Largest valid value.

    Raises:
        GpuperfError: It is no number, or outside the limits.
    """
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= most or (above_0 and not value):
        expected = "a number above 0" if above_0 else f"a number from 0 to {most:,}"
        raise GpuperfError(f"{key} is {text!r}", expected=expected)
    return value


def is_enabled(config: pytest.Config) -> bool:
    """Return True if `--gpuperf` or its ini key is set."""
    flag = config.getoption("gpuperf")
    return bool(config.getini("gpuperf") if flag is None else flag)


def refuse_without_gpuperf(config: pytest.Config) -> None:
    """Refuse options that ask for an action without `--gpuperf`.

    The ini file may have them, for runs with `--gpuperf`.

    Raises:
        pytest.UsageError: The command line, or `addopts`, has such an option.
    """
    given = [(option, config.getoption(option.ini)) for option in all_options() if option.asks]
    asked = [f"{option.flag}={value}" for option, value in given if value not in (None, option.default)]
    if asked:
        raise pytest.UsageError(
            f"gpuperf: {' and '.join(asked)} without --gpuperf, so without effect; "
            f"expected --gpuperf as well; type `{shlex.join(['pytest', '--gpuperf', *asked])}`"
        )

"""Texts in the form in which ncu prints them on a terminal; the kernels and numbers are invented."""

from __future__ import annotations

RULE = "    ---------------------------- ------------- -------------"
TITLES = "    Metric Name                    Metric Unit  Metric Value"
LONG_RULE = f"    {'-' * 70} {'-' * 15} {'-' * 30}"


def row(label: str, unit: str, value: str) -> str:
    """Return a row of a table since ncu 2022."""
    return f"    {label:<28} {unit:>13} {value:>13}"


def old_row(label: str, unit: str, value: str) -> str:
    """Return a row of a table before ncu 2022."""
    return f"    {label:<70} {unit:>15} {value:>30}"


def section(title: str, *rows: tuple[str, str, str]) -> str:
    """Return a section since ncu 2022."""
    lines = (row(*one) for one in rows)
    return "\n".join([f"    Section: {title}", RULE, TITLES, RULE, *lines, RULE, ""])


LAUNCH = "(64, 2, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 8.6"
SPEED_OF_LIGHT = section(
    "GPU Speed Of Light Throughput",
    ("DRAM Frequency", "Ghz", "7.59"),
    ("SM Frequency", "Ghz", "1.41"),
    ("Elapsed Cycles", "cycle", "1,166,261"),
    ("Memory Throughput", "%", "83.29"),
    ("DRAM Throughput", "%", "83.29"),
    ("Duration", "us", "117.98"),
    ("L1/TEX Cache Throughput", "%", "26.71"),
    ("L2 Cache Throughput", "%", "21.27"),
    ("Compute (SM) Throughput", "%", "10.42"),
)
NEW = (
    "==PROF== Connected to process 828 (/home/user/app)\n"
    '==PROF== Profiling "saxpy" - 0: 0%....50%....100% - 8 passes\n'
    "loss 0.5\n==PROF== Disconnected from process 828\n[828] app@127.0.0.1\n"
    f"  void <unnamed>::saxpy<float>(T1 *, int) {LAUNCH}\n"
    + SPEED_OF_LIGHT
    + "    OPT   Est. Local Speedup: 22.84%\n          Too few warps. See the guide.\n\n"
    + section(
        "Memory Workload Analysis",
        ("Memory Throughput", "Gbyte/s", "713.75"),
        ("Local Memory Spilling Requests", "", "18,911,232"),
        ("L2 Compression Ratio", "", "0"),
    )
    + section("Launch Statistics", ("Registers Per Thread", "register/thread", "255"), ("# SMs", "SM", "82"))
)
OLD = "\n".join(
    [
        "  partial_sum(float const *,float*), 2020-Nov-02 19:24:33, Context 1, Stream 7",
        "    Section: GPU Speed Of Light",
        LONG_RULE,
        old_row("Memory Frequency", "cycle/usecond", "866,86"),
        old_row("SOL FB", "%", "23,27"),
        old_row("Elapsed Cycles", "cycle", "23 982 976"),
        old_row("SM Frequency", "cycle/nsecond", "1,24"),
        old_row("Memory [%]", "%", "23,27"),
        old_row("Duration", "msecond", "19,38"),
        old_row("SM [%]", "%", "1,63"),
        LONG_RULE,
        "",
    ]
)
FAILED = (
    "==ERROR== LaunchFailed\n  render(int) (0, 0, 0)x(0, 0, 0), Context 1, Stream 7, Device 0, CC 8.6\n"
    + section(
        "GPU Speed Of Light Throughput",
        ("Duration", "nsecond", "(!) nan"),
        ("DRAM Throughput", "%", "(!) nan"),
    )
)

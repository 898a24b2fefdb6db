"""The command."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.history_power import __doc__ as usage
from benchmarks.history_power.analysis import analyse
from benchmarks.history_power.tables import report
from benchmarks.results_file import encode
from pytest_gpuperf.records.files import write_files

SAMPLES = Path(__file__).parent.parent / "results"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.history_power",
        description=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, help="JSON file for the summary")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--draws", type=int, default=3, help="histories of each kind")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    summary = analyse(SAMPLES, seed=arguments.seed, draws=arguments.draws, processes=arguments.processes)
    if arguments.out:
        write_files({arguments.out: encode(summary)})
    print(report(summary))


if __name__ == "__main__":
    main()

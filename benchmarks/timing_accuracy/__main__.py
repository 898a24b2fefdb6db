"""The commands."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.children import end_in_order_when_told
from benchmarks.results_file import encode
from benchmarks.timing_accuracy import __doc__ as usage
from benchmarks.timing_accuracy.measure import measure
from benchmarks.timing_accuracy.results import read
from benchmarks.timing_accuracy.tables import others_table, ours_table, placement_table, summary
from pytest_gpuperf.records.files import write_files


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.timing_accuracy",
        description=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, dest="command")
    command = commands.add_parser("measure")
    command.add_argument("--out", type=Path, required=True, help="JSON file, written after each process")
    command.add_argument("--processes", type=int, default=4, help="fresh processes that time with the plugin")
    commands.add_parser("table").add_argument("file", type=Path)
    arguments = parser.parse_args()
    end_in_order_when_told()
    if arguments.command == "measure":
        results = measure(arguments.processes, lambda so_far: write_files({arguments.out: encode(so_far)}))
    else:
        results = read(arguments.file)
    print(
        summary(results),
        ours_table(results, "hot"),
        ours_table(results, "cold"),
        placement_table(results),
        others_table(results),
        sep="\n",
    )


if __name__ == "__main__":
    main()

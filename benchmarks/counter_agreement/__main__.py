"""The commands."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.counter_agreement import __doc__ as usage
from benchmarks.counter_agreement.results import read
from benchmarks.counter_agreement.tables import agreement_table, cost, nsight_python, source, traffic_table
from benchmarks.results_file import encode
from pytest_gpuperf.records.files import write_files


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.counter_agreement",
        description=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, dest="command")
    command = commands.add_parser("measure")
    command.add_argument("--out", type=Path, required=True, help="JSON file")
    commands.add_parser("table").add_argument("file", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "measure":
        from benchmarks.counter_agreement.measure import measure

        results = measure()
        write_files({arguments.out: encode(results)})
    else:
        results = read(arguments.file)
    print(
        source(results),
        agreement_table(results),
        traffic_table(results),
        cost(results),
        nsight_python(results),
        sep="\n",
    )


if __name__ == "__main__":
    main()

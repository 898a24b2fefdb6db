"""The commands."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.children import end_in_order_when_told
from benchmarks.gate_power import __doc__ as usage
from benchmarks.gate_power.analysis import analyse, rules_before
from benchmarks.gate_power.sample import Sampler
from benchmarks.gate_power.samples import Writer, read, suspects
from benchmarks.gate_power.tables import report
from benchmarks.results_file import encode
from pytest_gpuperf.records.files import write_files
from pytest_gpuperf.records.run_store import load_run


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.gate_power", description=usage, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, dest="command")
    command = commands.add_parser("sample")
    command.add_argument("--out", type=Path, required=True, help="NAME.jsonl or NAME.jsonl.gz")
    command.add_argument("--minutes", type=float, default=8.0, help="wall-clock time in all")
    command.add_argument("--only", choices=["sessions", "restarts"], default="", help="sample only these")
    command.add_argument("--kernels", default="", metavar="REGEX", help="sample only kernels of these names")
    command = commands.add_parser("suspects")
    command.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="run.json of unchanged code")
    command.add_argument("--out", type=Path, required=True, help="NAME.jsonl or NAME.jsonl.gz")
    command = commands.add_parser("analyse")
    command.add_argument("files", type=Path, nargs="+", metavar="FILE", help="files written by `sample`")
    command.add_argument("--former", type=Path, help="summary of the same files by the gate of fc9efc0")
    command.add_argument("--out", type=Path, help="JSON file for the summary")
    arguments = parser.parse_args()
    if arguments.command == "sample":
        end_in_order_when_told()
        writer = Writer(arguments.out)
        try:
            Sampler(
                writer.write, 60 * arguments.minutes, only=arguments.only, kernels=arguments.kernels
            ).run()
        finally:
            writer.close()
        return
    if arguments.command == "suspects":
        writer = Writer(arguments.out)
        for line in (line for run in arguments.runs for line in suspects(load_run(run))):
            writer.write(line)
        writer.close()
        return
    former = rules_before(arguments.former) if arguments.former else []
    summary = analyse(read(arguments.files), former)
    if arguments.out:
        write_files({arguments.out: encode(summary)})
    print(report(summary))


if __name__ == "__main__":
    main()

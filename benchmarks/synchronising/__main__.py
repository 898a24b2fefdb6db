"""The commands."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from benchmarks.children import ChildError, end_in_order_when_told, in_turn, say
from benchmarks.gate_power.samples import Failed, Line, Writer, read
from benchmarks.synchronising import __doc__ as usage
from benchmarks.synchronising.tables import report

SESSION = "benchmarks.synchronising.child:session"
LIMIT_S = 120.0


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.synchronising",
        description=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, dest="command")
    command = commands.add_parser("sample")
    command.add_argument("--out", type=Path, required=True, help="NAME.jsonl or NAME.jsonl.gz")
    command.add_argument("--processes", type=int, default=20)
    command = commands.add_parser("table")
    command.add_argument("files", type=Path, nargs="+", metavar="FILE", help="files written by `sample`")
    arguments = parser.parse_args()
    if arguments.command == "sample":
        end_in_order_when_told()
        sample(arguments.out, arguments.processes)
    else:
        print(report(read(arguments.files)))


def sample(path: Path, processes: int, target: str = SESSION) -> None:
    """Write the samples of some processes; one that fails leaves its reason."""
    writer = Writer(path)
    try:
        for process, child in enumerate(in_turn([(target, [str(at)]) for at in range(processes)])):
            try:
                for message in child.messages(LIMIT_S):
                    writer.write(msgspec.convert(message, Line))
                say(f"process {process}")
            except ChildError as error:
                writer.write(Failed(what=f"process {process}", why=str(error)))
                say(f"process {process} failed: {error}")
    finally:
        writer.close()


if __name__ == "__main__":
    main()

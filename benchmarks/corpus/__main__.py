"""Read a corpus of public files by the package and by an independent reader, and count the differences.

python -m benchmarks.corpus --list              # where to get the files
python -m benchmarks.corpus FOLDER              # compare those in FOLDER/OWNER+NAME/PATH
python -m benchmarks.corpus FOLDER --results FILE.json
"""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.ncu.report_file import read_file
from pytest_gpuperf.features.trace.files import read_traces
from pytest_gpuperf.metrics.combination import combine
from pytest_gpuperf.records.file_kind_detection import kind_of

if TYPE_CHECKING:
    from benchmarks.corpus.independent import Values

FILE = Path(__file__).parents[1] / "results" / "corpus.json"
SHOWN = 5
"""Maximum number of differences of a file that are printed."""


class CorpusFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A public file, and what came of its comparison."""

    repository: str
    commit: str
    path: str
    licence: str
    """SPDX name; empty if the repository names none."""
    sha256: str
    outcome: Literal["read", "refused"] = "read"
    values: int = 0
    differences: int = 0
    note: str = ""

    @property
    def url(self) -> str:
        """Address of the file."""
        return f"https://raw.githubusercontent.com/{self.repository}/{self.commit}/{self.path}"

    def place(self, folder: Path) -> Path:
        """Return the file below a folder."""
        return folder / self.repository.replace("/", "+") / self.path


def package_values(path: Path) -> Values:
    """Read a file by the package, with the keys of the independent reader.

    Raises:
        GpuperfError: The package refuses the file.
    """
    found: Values = {}
    if kind_of(path) in ("trace", "json"):
        for gpu in read_traces([path])[0]:
            here, trace = f"GPU {gpu.trace.device}: ", gpu.trace
            found |= {
                f"{here}{name}": float(getattr(trace, name)) for name in ("launches", "copies", "span_us")
            }
            if trace.gpu_busy_pct is not None:
                found[here + "busy_us"] = trace.busy_us
            for name in {kernel.name for kernel in trace.kernels}:
                same = [kernel for kernel in trace.kernels if kernel.name == name]
                found[f"{here}{name}: calls"] = float(sum(kernel.calls for kernel in same))
                found[f"{here}{name}: total_us"] = sum(kernel.total_us for kernel in same)
                registers = sorted({kernel.registers_per_thread for kernel in same})
                found[f"{here}{name}: registers"] = " ".join(map(str, registers))
        return found
    file = read_file(path, everything=True)
    for number, kernel in enumerate(file.kernels):
        here = f"launch {number}: "
        found[here + "name"], found[here + "demangled"] = kernel.name, kernel.demangled or kernel.name
        found |= {here + name: value for name, value in kernel.metrics.items()}
        found |= {here + f"unit of {name}": kernel.unit(name) for name in kernel.metrics}
    found["all: launches"] = float(len(file.kernels))
    total = combine(file.kernels).get("duration_us")
    return found | ({} if total is None else {"all: duration_us": total})


def different(one: float | str, other: float | str) -> bool:
    """Return True if two values are not the same up to the rounding of sums."""
    if isinstance(one, str) or isinstance(other, str):
        return one != other
    return not math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-3)


def compare(known: CorpusFile, path: Path) -> tuple[CorpusFile, list[str]]:
    """Read a file twice; return the outcome, and a line for each difference."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.corpus.independent", str(path)], capture_output=True, text=True
    )
    expected: Values = json.loads(done.stdout) if done.returncode == 0 else {}
    try:
        found = package_values(path)
    except GpuperfError as error:
        return msgspec.structs.replace(known, outcome="refused", note=error.found.partition(" ")[2]), []
    lines = [f"{key}: {expected[key]} and {found.get(key)}" for key in expected
             if key not in found or different(expected[key], found[key])]  # fmt: skip
    counts = {"values": len(expected), "differences": len(lines)}
    return msgspec.structs.replace(known, outcome="read", note="", **counts), lines


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False), required=False)
@click.option("--list", "wanted", is_flag=True, help="Print where to get the files.")
@click.option("--results", type=click.Path(path_type=Path), help="Write the outcomes to this file.")
def main(folder: Path | None, wanted: bool, results: Path | None) -> None:
    """Compare the files of the corpus that are in FOLDER."""
    files = msgspec.json.decode(FILE.read_bytes(), type=list[CorpusFile])
    if wanted or folder is None:
        for known in files:
            click.echo(f"{known.place(Path())}  {known.url}  {known.licence or 'no licence named'}")
        return
    done = []
    for known in files:
        path = known.place(folder)
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != known.sha256:
            click.echo(f"missing: {path}")
            continue
        one, lines = compare(known, path)
        done.append(one)
        click.echo(
            f"{one.outcome:8} {one.values:6,} {one.differences:4,}  {path.relative_to(folder)} {one.note}"
        )
        for line in lines[:SHOWN]:
            click.echo(f"    {line[:200]}")
    read = [one for one in done if one.outcome == "read"]
    repositories = len({one.repository for one in done})
    values, differences = (sum(getattr(one, name) for one in done) for name in ("values", "differences"))
    click.echo(
        f"{len(done)} files of {repositories} repositories, {len(read)} read: "
        f"{values:,} values compared, {differences:,} differences"
    )
    if results is not None:
        results.write_bytes(msgspec.json.format(msgspec.json.encode(done), indent=1) + b"\n")


if __name__ == "__main__":
    main()

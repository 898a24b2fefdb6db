"""Stands in for `gh auth`, and for `gh api`: its requests go to the API of `workflow_runner`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import urllib.request
from pathlib import Path

import jq


def main() -> None:
    """Send the requests of one command, and print the answers as `--jq` selects them."""
    if sys.argv[1:] == ["auth", "setup-git"]:
        # The remote of the tests asks for no password, so the permission is checked here.
        sys.exit(json.loads(os.environ["GH_TOKEN"]) != {"contents": "write"})
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["api"])
    parser.add_argument("path")
    parser.add_argument("--paginate", action="store_true")
    parser.add_argument("--silent", action="store_true")
    parser.add_argument("--method", default="GET")
    parser.add_argument("--jq", default=".")
    parser.add_argument("-F", dest="fields", action="append", default=[])
    asked = parser.parse_args()
    fields = dict(field.split("=@") for field in asked.fields)
    body = {name: Path(file).read_text(encoding="utf-8") for name, file in fields.items()}
    # gh gives its environment to the query; the library has none.
    query = "$environment as $e | " + asked.jq.replace("env.", "$e.")
    program = jq.compile(query, args={"environment": dict(os.environ)})
    found: list[object] = []
    page = 1
    while page == 1 or (asked.paginate and found):
        url = f"{os.environ['GITHUB_API_URL']}/{asked.path}" + (f"&page={page}" if asked.paginate else "")
        request = urllib.request.Request(
            url, json.dumps(body).encode() if body else None, method=asked.method
        )
        request.add_header("Authorization", f"Bearer {os.environ['GH_TOKEN']}")
        with urllib.request.urlopen(request) as answer:
            found = json.load(answer)
        if not asked.silent:
            for one in program.input_value(found).all():
                sys.stdout.write(f"{one if isinstance(one, str) else json.dumps(one)}\n")
        page += 1


if __name__ == "__main__":
    main()

"""What a process does when it is told to end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from pytest_gpuperf.processes.children import end_group
from pytest_gpuperf.processes.signals import ended_in_order, signals_held_off


def run(program: str) -> subprocess.CompletedProcess[str]:
    program = (
        "import os, signal, time\n"
        f"from pytest_gpuperf.processes.signals import ended_in_order, signals_held_off\n{program}"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)


def test_ctrl_c_counts_after_the_block_that_holds_it_off() -> None:
    done: list[str] = []

    def write() -> None:
        with signals_held_off():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            done.append("all")

    with pytest.raises(KeyboardInterrupt):
        write()
    assert done == ["all"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_would_end_the_process_at_once_runs_its_finally_clauses_first(number: signal.Signals) -> None:
    done = run(f"""
with ended_in_order():
    try:
        os.kill(os.getpid(), {number})
        time.sleep(5)
    finally:
        with signals_held_off():
            os.kill(os.getpid(), {number})
            print("in order", flush=True)
print("went on")
""")
    assert done.stdout == "in order\n"
    assert done.returncode == -number


def test_a_signal_that_is_ignored_or_handled_already_is_left_alone() -> None:
    done = run("""
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.signal(signal.SIGTERM, lambda *_: print("theirs", flush=True))
with ended_in_order():
    os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGTERM)
print("went on")
""")
    assert done.stdout == "theirs\nwent on\n"


def test_nothing_is_changed_where_no_signal_comes() -> None:
    with ended_in_order():
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_group_ends_with_its_children_and_with_those_that_do_not_listen() -> None:
    program = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.fork()
os.write(1, b"x\\n")
time.sleep(60)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], start_new_session=True, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == [b"x\n"] * 2
    begin = time.monotonic()
    end_group(process, grace_s=0.1)
    assert process.returncode == -signal.SIGKILL
    # Until the last of them has closed it.
    assert process.stdout.read() == b""
    assert time.monotonic() - begin < 30

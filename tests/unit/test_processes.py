"""Signals and child processes."""

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


def test_ctrl_c_takes_effect_after_the_block() -> None:
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


def test_signal_is_not_lost_if_the_block_raises() -> None:
    def fail() -> None:
        with signals_held_off():
            signal.raise_signal(signal.SIGINT)
            raise ValueError

    with pytest.raises(KeyboardInterrupt):
        fail()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_terminating_signal_runs_finally_clauses(number: signal.Signals) -> None:
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


def test_ignored_and_handled_signals_stay_unchanged() -> None:
    done = run("""
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.signal(signal.SIGTERM, lambda *_: print("theirs", flush=True))
with ended_in_order():
    os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGTERM)
print("went on")
""")
    assert done.stdout == "theirs\nwent on\n"


def test_handlers_are_restored_without_a_signal() -> None:
    with ended_in_order():
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_group_ends_with_children_that_ignore_signals() -> None:
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
    # `read` returns after the last process has closed the pipe.
    assert process.stdout.read() == b""
    assert time.monotonic() - begin < 30

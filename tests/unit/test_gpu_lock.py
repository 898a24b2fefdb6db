"""The lock that allows one run at a time on a GPU."""

from __future__ import annotations

import os
import signal
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_locks import UUID, held_elsewhere, let_go
from present import present
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device.gpu_lock import GpuLock, Holder

if TYPE_CHECKING:
    from collections.abc import Callable


def the_file(folder: Path) -> Path:
    return folder / f"pytest-gpuperf-{UUID}.lock"


def acquired(*folders: Path) -> GpuLock:
    def busy(holder: Holder) -> None:
        raise AssertionError(holder)

    lock = GpuLock(UUID, folders)
    lock.acquire(busy)
    return lock


def test_process_waits_and_learns_the_holder(tmp_path: Path) -> None:
    holders = []
    with held_elsewhere(tmp_path) as other:

        def waiting(holder: Holder) -> None:
            holders.append(holder)
            if len(holders) == 3:
                let_go(other)

        lock = GpuLock(UUID, [tmp_path])
        lock.acquire(waiting)
        lock.release()
        assert {holder.pid for holder in holders} == {other.pid}
        assert abs(holders[0].since - time.time()) < 60


def test_two_gpus_do_not_wait_for_each_other(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path, gpu="GPU-2"):
        acquired(tmp_path).release()


def test_process_does_not_wait_for_its_parent(tmp_path: Path) -> None:
    lock = acquired(tmp_path)
    with held_elsewhere(tmp_path):
        assert lock.holder() is not None
    lock.release()
    with held_elsewhere(tmp_path):
        assert GpuLock(UUID, [tmp_path]).holder() is not None


@given(text=st.binary(max_size=80))
def test_any_file_content_is_harmless_to_readers(text: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lock = acquired(folder)
        the_file(folder).write_bytes(text)
        assert str(lock.holder()).isprintable()
        lock.release()


def test_unlocked_and_released_gpus_have_no_holder(tmp_path: Path) -> None:
    lock = GpuLock(UUID, [tmp_path])
    assert lock.holder() is None
    lock.acquire()
    lock.release()
    assert lock.holder() is None


def test_every_user_may_write_the_lock_file(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        lock = acquired(tmp_path)
    finally:
        os.umask(before)
    lock.release()
    assert the_file(tmp_path).stat().st_mode & 0o777 == 0o666


def test_users_with_own_tmpdir_share_the_lock(tmp_path: Path) -> None:
    gpu = f"GPU-{uuid.uuid4()}"
    lock = GpuLock(gpu)
    with held_elsewhere(gpu=gpu, TMPDIR=str(tmp_path)) as other:
        assert present(lock.holder()).pid == other.pid
    lock._path().unlink()


def test_unreadable_lock_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    the_file(tmp_path).write_bytes(b"")
    really = os.open

    def refuse(path: Path, flags: int, mode: int = 0o777) -> int:
        if not flags & os.O_CREAT:
            raise PermissionError(13, "Permission denied")
        return really(path, flags, mode)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(GpuperfError) as raised:
            acquired(tmp_path)
    assert str(raised.value) == (
        f"{the_file(tmp_path)} cannot be locked: Permission denied; expected a plain file that every user "
        "may write; remove it while nothing is measured"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
@pytest.mark.parametrize("mode", [0o666, 0o644])
def test_file_of_another_user_can_be_locked(mode: int) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o1777)
        acquired(folder).release()
        the_file(folder).chmod(mode)
        child = os.fork()
        if not child:
            # Become another user for good, without the right to ignore file permissions.
            try:
                os.setgid(65534)
                os.setuid(65534)
                acquired(folder)
                os._exit(0)
            except BaseException:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    ("put", "what"),
    [
        (lambda target, path: path.symlink_to(target), "it is a symbolic link"),
        (lambda target, path: path.hardlink_to(target), "not a plain file with one name"),
        (lambda _, path: os.mkfifo(path), "not a plain file with one name"),
    ],
    ids=["link", "second name", "fifo"],
)
def test_foreign_file_at_the_path_is_refused_and_kept(
    tmp_path: Path, put: Callable[[Path, Path], None], what: str
) -> None:
    target = tmp_path / "dear"
    target.write_text("to us")
    put(target, the_file(tmp_path))
    with pytest.raises(GpuperfError, match=f"cannot be locked: {what}"):
        acquired(tmp_path)
    assert target.read_text() == "to us"


def test_missing_folders_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(GpuperfError, match=r"neither .*/a nor .*/b is writable"):
        acquired(tmp_path / "a", tmp_path / "b")


def test_second_folder_is_used_without_the_first(tmp_path: Path) -> None:
    lock = acquired(tmp_path / "a", tmp_path)
    assert the_file(tmp_path).exists()
    lock.release()


def test_waiter_locks_the_new_file_after_a_cleanup(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as other:

        def waiting(_: Holder) -> None:
            the_file(tmp_path).unlink(missing_ok=True)
            let_go(other)

        lock = GpuLock(UUID, [tmp_path])
        lock.acquire(waiting)
        assert present(GpuLock(UUID, [tmp_path]).holder()).pid == os.getpid()
        lock.release()


def test_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    lock = acquired(tmp_path)
    child = os.fork()
    if not child:
        signal.pause()
    try:
        lock.release()
        acquired(tmp_path).release()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_an_interrupted_wait_leaves_nothing_behind(tmp_path: Path) -> None:
    def interrupt(_: Holder) -> None:
        raise KeyboardInterrupt

    with held_elsewhere(tmp_path) as other:
        lock = GpuLock(UUID, [tmp_path])
        open_before = len(list(Path("/proc/self/fd").iterdir()))
        with pytest.raises(KeyboardInterrupt):
            lock.acquire(interrupt)
        assert len(list(Path("/proc/self/fd").iterdir())) == open_before
        let_go(other)
        lock.acquire()
        lock.release()

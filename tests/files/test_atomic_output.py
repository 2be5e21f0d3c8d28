"""Output files are complete or not there, and nothing but a regular file is replaced."""

import os
import signal
import stat
import subprocess
import sys
from socket import AF_UNIX, socket
from threading import Thread

import pytest

import widemargin
from widemargin import KernelSVC
from widemargin.export import to_c
from widemargin.files.atomic_output import check_output, replace_file

KILLED = """
import os, signal, sys
from widemargin.files.atomic_output import replace_file
with replace_file(sys.argv[1]) as stream:
    stream.write(b"half")
    stream.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def write(path, content):
    with replace_file(path) as stream:
        stream.write(content)


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


@pytest.fixture
def model(iris):
    return KernelSVC(gamma=0.1).fit(*iris)


#: Every public way to write a file, as a function of a model and a path.
WRITERS = {
    "save": widemargin.save,
    "to_libsvm": lambda model, path: model.to_libsvm(path),
    "to_c": lambda model, path: to_c(model, path, verbose=False),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_failure_keeps_what_was_there(model, tmp_path, monkeypatch, writer):
    target = tmp_path / "model.c"
    for name in ("model.c", "model.h"):
        (tmp_path / name).write_text("old")

    def fail(*_):
        raise OSError("disk full")

    for function in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, function, fail)
            with pytest.raises(OSError, match="disk full"):
                WRITERS[writer](model, target)
        assert names(tmp_path) == ["model.c", "model.h"]
        assert {(tmp_path / name).read_text() for name in names(tmp_path)} == {"old"}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("kind", ["socket", "folder", "circular link", "device"])
def test_what_is_no_regular_file_is_refused(model, tmp_path, monkeypatch, writer, kind):
    target = tmp_path / "model.c"
    if kind == "socket":
        # Relative, because the path of a socket must be short.
        monkeypatch.chdir(tmp_path)
        with socket(AF_UNIX) as end:
            end.bind(target.name)
    elif kind == "folder":
        target.mkdir()
    elif kind == "circular link":
        target.symlink_to(target)
    else:
        # A device of our own: one of the system's would be lost if this test failed.
        try:
            os.mknod(target, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("only the superuser can make a device")
    before = target.lstat()
    with pytest.raises(FileExistsError, match=r"path: .*model\.c.* not a regular file"):
        WRITERS[writer](model, target)
    assert names(tmp_path) == ["model.c"]
    after = target.lstat()
    assert (before.st_mode, before.st_ino) == (after.st_mode, after.st_ino)


def test_the_file_behind_a_link_is_replaced(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("absent")
    write(tmp_path / "link", b"new")
    write(tmp_path / "dangling", b"made")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
    assert (tmp_path / "absent").read_bytes() == b"made"
    assert names(tmp_path) == ["absent", "dangling", "link", "real"]


def test_permissions_are_those_of_open_or_of_the_old_file(tmp_path):
    target = tmp_path / "m"
    before = os.umask(0o027)
    try:
        write(target, b"1")
        assert stat.S_IMODE(target.stat().st_mode) == 0o640
        target.chmod(0o604)
        write(target, b"2")
    finally:
        os.umask(before)
    assert stat.S_IMODE(target.stat().st_mode) == 0o604


def test_the_next_save_removes_the_file_of_a_killed_one(tmp_path):
    for name in ("m", "other"):
        done = subprocess.run([sys.executable, "-c", KILLED, tmp_path / name], check=False)
        assert done.returncode == -signal.SIGKILL
    assert len(names(tmp_path)) == 2
    write(tmp_path / "m", b"whole")
    left = names(tmp_path)
    assert len(left) == 2
    assert "m" in left
    write(tmp_path / "other", b"whole")
    assert names(tmp_path) == ["m", "other"]


def test_a_file_that_is_being_written_is_not_taken_for_abandoned(tmp_path):
    target = tmp_path / "m"
    with replace_file(target) as outer:
        outer.write(b"outer")
        write(target, b"inner")
        assert target.read_bytes() == b"inner"
        assert len(names(tmp_path)) == 2
    assert target.read_bytes() == b"outer"
    assert names(tmp_path) == ["m"]


def test_many_writers_of_one_target_do_not_disturb_each_other(tmp_path):
    target, failures = tmp_path / "m", []

    def work(number):
        try:
            for _ in range(50):
                write(target, bytes([number]) * 1000)
        except OSError as error:
            failures.append(error)

    threads = [Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(set(target.read_bytes())) == 1
    assert names(tmp_path) == ["m"]


def test_the_name_may_be_as_long_as_the_file_system_allows(tmp_path):
    target = tmp_path / ("m" * 255)
    write(target, b"whole")
    assert names(tmp_path) == [target.name]


def test_checking_an_output_leaves_nothing(tmp_path):
    check_output(tmp_path / "m")
    assert names(tmp_path) == []
    with pytest.raises(FileNotFoundError, match=r"path: .*folder does not exist; create"):
        check_output(tmp_path / "absent" / "m")
    with pytest.raises(FileExistsError, match="folder"):
        check_output(tmp_path)

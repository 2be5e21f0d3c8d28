"""Output files that appear under their name only when they are complete."""

import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO


@contextmanager
def replace_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a temporary file that takes the place of `path` if the block succeeds.

    The temporary file is in the folder of the target, so that `os.replace` is atomic. A new file has
    the permissions that `open` would give it; an existing file keeps its own. The next call for the
    same target removes a temporary file that a killed process left.

    Parameters
    ----------
    path : path-like
        Where to write. A symbolic link stays a link, and the file that it points to is replaced. A
        target that exists and is not a regular file (a folder, a device, a pipe) raises
        FileExistsError.
    """
    target = _find_target(path)
    _remove_abandoned(target)
    temporary, stream = _create_temporary(target)
    try:
        with stream:
            if target.exists():
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            if sys.platform == "win32":
                # Windows renames no file that is open; elsewhere the lock is needed until the end.
                stream.close()
            os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def check_output(path: str | os.PathLike[str]) -> None:
    """Raise OSError if `replace_file` cannot write to `path`; no file is created."""
    temporary, stream = _create_temporary(_find_target(path))
    stream.close()
    temporary.unlink()


def _find_target(path: str | os.PathLike[str]) -> Path:
    target = Path(os.path.realpath(path))
    # A path that is still a link after it was resolved is a link to itself.
    if target.is_symlink() or (target.exists() and not target.is_file()):
        kind = "folder" if target.is_dir() else "device, pipe, socket or circular link"
        raise FileExistsError(
            f"path: {os.fspath(path)!r} is a {kind}, not a regular file; give the path of a file"
        )
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"path: {os.fspath(path)!r} cannot be written, because its folder does not exist; create "
            "the folder first"
        )
    return target


def _prefix(target: Path) -> str:
    # A checksum stands for the name, because a name may be as long as the file system allows.
    return f".widemargin-{zlib.crc32(os.fsencode(target.name)):08x}-"


def _create_temporary(target: Path) -> tuple[Path, BinaryIO]:
    """Create a temporary file; its lock tells other processes that it is in use."""
    while True:
        temporary = target.with_name(f"{_prefix(target)}{token_hex(8)}.tmp")
        try:
            # Not tempfile: its files are private to the owner, an output should follow the umask.
            stream = temporary.open("xb")
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(target)) from error
        _lock(stream)
        if temporary.exists():
            return temporary, stream
        # Another process took the file for abandoned before it was locked.
        stream.close()


def _remove_abandoned(target: Path) -> None:
    """Remove temporary files of this target that no process holds any more."""
    for temporary in target.parent.glob(f"{_prefix(target)}*.tmp"):
        # Another process may remove the file first, and the file may be another user's.
        with suppress(FileNotFoundError, PermissionError):
            _remove_unless_locked(temporary)


if sys.platform == "win32":

    def _lock(stream: BinaryIO) -> None:
        """Do nothing: Windows does not remove a file that is open."""

    def _remove_unless_locked(path: Path) -> None:
        path.unlink()

else:
    import fcntl

    def _lock(stream: BinaryIO) -> None:
        """Lock a file until it is closed."""
        # Some network file systems have no locks; no file of theirs is taken for abandoned.
        with suppress(OSError):
            fcntl.flock(stream, fcntl.LOCK_EX)

    def _remove_unless_locked(path: Path) -> None:
        # The lock is held until the file is gone, or its owner could lock it in between.
        with path.open("rb") as stream, suppress(OSError):
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()

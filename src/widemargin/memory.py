"""Memory: amounts read from text, what is free, and buffers that are used again."""

import os
import re
from math import inf, prod
from numbers import Integral
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_AMOUNT = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*([a-zA-Z]*)\s*")

#: Share of the free memory that ``"auto"`` takes.
AUTO_SHARE = 0.5
#: What ``"auto"`` takes where the free memory cannot be found out.
AUTO_FALLBACK_BYTES = 2 * 10**9


class Buffers:
    """Large arrays that one problem after another uses: touching fresh memory takes time."""

    def __init__(self) -> None:
        self._held: dict[str, NDArray[np.float32]] = {}

    def take(self, name: str, *shape: int) -> NDArray[np.float32]:
        """An array of this shape with any content, valid until the name is taken again."""
        size = prod(shape)
        if name not in self._held or len(self._held[name]) < size:
            self._held[name] = np.empty(size, np.float32)
        return self._held[name][:size].reshape(shape)


def parse_bytes(memory: int | str, name: str = "memory") -> int:
    """Number of bytes in ``memory``: a number, text such as ``"2 GB"``, or ``"auto"``.

    ``name`` is the parameter to name in an error.
    """
    if isinstance(memory, str) and memory == "auto":
        return int(AUTO_SHARE * free_bytes())
    if isinstance(memory, Integral) and not isinstance(memory, bool) and memory > 0:
        return int(memory)
    if isinstance(memory, str):
        match = _AMOUNT.fullmatch(memory)
        if match and match[2].lower() in _UNITS:
            amount = float(match[1]) * _UNITS[match[2].lower()]
            if 1 <= amount < inf:
                return int(amount)
    raise ValueError(
        f"{name}: {memory!r:.80} is not an amount; give bytes as a positive integer, text such as "
        "'500 MB' or '2 GiB', or 'auto'"
    )


def free_bytes() -> int:
    """Memory that can be used without swapping, as far as the system tells."""
    free = _read_meminfo()
    if free is None and hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if free is None:
        return int(AUTO_FALLBACK_BYTES / AUTO_SHARE)
    limit = _read_cgroup_limit()
    return free if limit is None else min(free, limit)


def _read_meminfo() -> int | None:
    """``MemAvailable`` of Linux, which counts caches the kernel would give up."""
    path = Path("/proc/meminfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def _read_cgroup_limit() -> int | None:
    """What a container may still take, where there is such a limit."""
    folder = Path("/sys/fs/cgroup")
    try:
        limit = (folder / "memory.max").read_text().strip()
        used = int((folder / "memory.current").read_text())
        statistics = (folder / "memory.stat").read_text()
    except OSError:
        return None
    if limit == "max":
        return None
    # File caches count as used but are given up when memory is short.
    cached = dict(line.split() for line in statistics.splitlines()).get("inactive_file", "0")
    return max(int(limit) - used + int(cached), 0)

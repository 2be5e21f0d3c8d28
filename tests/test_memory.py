"""Amounts of memory as text, and what is free."""

import numpy as np
import pytest

from widemargin import memory
from widemargin.memory import free_bytes, parse_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (1, 1),
        (np.int64(4096), 4096),
        ("17", 17),
        ("17 B", 17),
        ("2kb", 2_000),
        ("500 MB", 500_000_000),
        ("2 GB", 2_000_000_000),
        ("1.5 gb", 1_500_000_000),
        (".5 KiB", 512),
        ("  3 MiB  ", 3 * 2**20),
        ("2GiB", 2 * 2**30),
        ("1 TB", 10**12),
        ("1 tib", 2**40),
    ],
)
def test_amounts(text, expected):
    amount = parse_bytes(text)
    assert amount == expected
    assert type(amount) is int


@pytest.mark.parametrize(
    "bad",
    [0, -1, "0", "0 GB", "0.4 B", "-2 GB", "", "GB", "2 XB", "2 G B", "1,5 GB", "2 GB!", "AUTO",
     "nan", "inf", "9" * 5000, True, 1.5, 2e9, None, b"2 GB", [1]],
)  # fmt: skip
def test_what_is_no_amount_is_refused(bad):
    with pytest.raises(ValueError, match=r"memory: .* is not an amount"):
        parse_bytes(bad)


def test_auto_is_a_share_of_what_is_free(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda: 1000)
    assert parse_bytes("auto") == int(memory.AUTO_SHARE * 1000)


def test_free_bytes_is_plausible():
    assert 10**6 < free_bytes() < 10**15


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, 5000), (8000, 5000), (3000, 3000)], ids=["none", "far", "near"]
)
def test_container_limit_counts(monkeypatch, limit, expected):
    monkeypatch.setattr(memory, "_read_meminfo", lambda: 5000)
    monkeypatch.setattr(memory, "_read_cgroup_limit", lambda: limit)
    assert free_bytes() == expected


def test_fallback_where_nothing_is_known(monkeypatch):
    monkeypatch.setattr(memory, "_read_meminfo", lambda: None)
    monkeypatch.delattr(memory.os, "sysconf", raising=False)
    assert parse_bytes("auto") == memory.AUTO_FALLBACK_BYTES


class FolderOf:
    """Stands in for `pathlib.Path`: files by name, whatever the folder."""

    files: dict

    def __init__(self, name):
        self.name = str(name)

    def __truediv__(self, name):
        return FolderOf(name)

    def exists(self):
        return self.name in self.files

    def read_text(self):
        if not self.exists():
            raise FileNotFoundError(self.name)
        return self.files[self.name]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"memory.max": "max\n", "memory.current": "10\n", "memory.stat": "anon 1\n"}, None),
        ({"memory.max": "100\n", "memory.current": "30\n", "memory.stat": "anon 5\n"}, 70),
        ({"memory.max": "9\n", "memory.current": "8\n", "memory.stat": "inactive_file 5\n"}, 6),
        ({"memory.max": "100\n", "memory.current": "130\n", "memory.stat": ""}, 0),
        ({"memory.max": "100\n"}, None),
    ],
)
def test_container_files(monkeypatch, files, expected):
    monkeypatch.setattr(FolderOf, "files", files, raising=False)
    monkeypatch.setattr(memory, "Path", FolderOf)
    assert memory._read_cgroup_limit() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MemTotal: 9 kB\nMemAvailable:   7 kB\nCached: 2 kB\n", 7 * 1024),
        ("MemTotal: 9 kB\n", None),
    ],
)
def test_system_file(monkeypatch, text, expected):
    monkeypatch.setattr(FolderOf, "files", {"/proc/meminfo": text}, raising=False)
    monkeypatch.setattr(memory, "Path", FolderOf)
    assert memory._read_meminfo() == expected

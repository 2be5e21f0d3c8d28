"""What a measurement was made with: hardware, versions, commit, sources and date."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import widemargin
from benchmarks.freshness import fingerprint_sources

PACKAGES = (
    "numpy", "scipy", "scikit-learn", "numba", "scikit-learn-intelex", "interpret-core",
)  # fmt: skip
ROOT = Path(__file__).resolve().parents[1]


def describe_machine() -> dict[str, Any]:
    """Describe the machine and the software, without anything that tells whose it is."""
    return {
        "cpu": read_cpu_model(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": platform.system(),
        "versions": list_versions(),
        "commit": read_commit(),
        "sources": fingerprint_sources(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def list_versions() -> dict[str, str]:
    """Versions of Python, this library, what it needs and its peers, where installed."""
    versions = {"python": platform.python_version(), "widemargin": widemargin.__version__}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def read_cpu_model() -> str:
    """Name of the processor; Linux keeps it where the platform module does not look."""
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def read_commit() -> str | None:
    """Short commit, with ``+changes`` if the sources of the library differ from it."""
    commit = _ask_git("rev-parse", "--short", "HEAD")
    if commit is None:
        return None
    return f"{commit}+changes" if _ask_git("status", "--porcelain", "--", "src") else commit


def _ask_git(*arguments: str) -> str | None:
    try:
        answer = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()

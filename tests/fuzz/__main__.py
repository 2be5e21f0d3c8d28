"""Random cases against the library.

``python -m tests.fuzz --minutes 60`` runs cases of all targets in worker processes, prints findings
and a table, and exits with 1 if anything was wrong, hung or crashed.
``python -m tests.fuzz --target fits --seed 12345`` repeats one case in this process.
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tests.fuzz.runner import Run, describe, format_table
from tests.fuzz.worker import FAILURES, TARGETS, run_case, work


def make_parser():
    """Options of the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--target", choices=TARGETS, action="append", help="default: all")
    parser.add_argument(
        "--seed", type=int, nargs="+", help="cases to repeat; with --minutes, the first of many"
    )
    parser.add_argument("--minutes", type=float, help="how long to run")
    parser.add_argument("--jobs", type=int, default=1, help="workers at a time")
    parser.add_argument("--out", type=Path, help="folder for findings.jsonl; default: a new one")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    return parser


def main():
    """Run the command; returns its exit status."""
    parser = make_parser()
    args = parser.parse_args()
    targets = args.target or list(TARGETS)
    if args.minutes is None and (args.seed is None or len(targets) != 1):
        parser.error("give --minutes, or one --target and a --seed")
    if args.worker:
        work(targets[0], args.seed, args.seconds)
        return 0
    if args.minutes is None:
        return repeat(targets[0], args.seed)
    folder = args.out or Path(tempfile.mkdtemp(prefix="widemargin-fuzz-"))
    folder.mkdir(parents=True, exist_ok=True)
    first = args.seed[0] if args.seed else random.SystemRandom().randrange(10**9)
    print(f"first seed {first}, findings in {folder}", flush=True)
    run = Run(targets, args.minutes, args.jobs, first, folder)
    run.run()
    for key, seeds in run.findings.items():
        print(f"{len(seeds):5} x {' '.join(key)}: seeds {', '.join(map(str, seeds[:5]))}")
    print(format_table(run.counts))
    return int(run.failed)


def repeat(target, seeds):
    """Run cases in this process, where a debugger can watch; returns the exit status."""
    verdicts = []
    for seed in seeds:
        report = run_case(target, seed, lambda *note: print(*note, sep=": ", flush=True))
        print(describe(report))
        verdicts.append(report.verdict)
    return int(any(verdict in FAILURES for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())

"""The process of every measurement: ``python -m benchmarks.worker JOB``.

The job is JSON: ``{"function": "module:name", "arguments": {...}}``. The function yields records.
Each becomes a line of JSON on standard output at once, so that none is lost when a later one takes
too long. The last line tells what the whole process took.
"""

import json
import os
import sys
import time
from importlib import import_module
from typing import Any

from benchmarks.timing import read_peak_rss


def main(job: dict[str, Any]) -> None:
    # Libraries may print; only records go where the harness reads.
    with os.fdopen(os.dup(1), "w") as output:
        os.dup2(2, 1)
        began = time.perf_counter()
        module, _, name = job["function"].partition(":")
        for record in getattr(import_module(module), name)(**job["arguments"]):
            print(json.dumps(record), file=output, flush=True)
        usage = {
            "seconds": time.perf_counter() - began,
            "cpu_seconds": time.process_time(),
            "peak_rss_bytes": read_peak_rss(),
        }
        print(json.dumps({"process": usage}), file=output, flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

"""The measurement of first fits: the first process compiles, later ones load."""

import json
import sys
from pathlib import Path

# The harness is not installed with the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.__main__ import main


def test_first_process_compiles_and_later_ones_do_not(tmp_path, capsys):
    output = tmp_path / "first.jsonl"
    options = ["--estimators", "AdditiveSVC", "--repeats", "1", "--rows", "300"]
    assert main(["firstuse", *options, "--output", str(output)]) == 0
    cold, warm = map(json.loads, output.read_text().splitlines())
    assert (cold["cache"], warm["cache"]) == ("empty", "filled")
    assert cold["n_compiled"] > 0
    assert warm["n_compiled"] == 0
    assert cold["machine"]["threads"] == 1
    assert "AdditiveSVC, empty cache" in capsys.readouterr().out

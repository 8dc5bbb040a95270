"""Ensembles of the scorers in `runs/results/`, ranked on dev and test, kept in `results/ensembles/`.

    python -m benchmarks.ensemble_results umls complex-modern-0 complex-modern-1 complex-modern-2 conve-paper-0

Which members to take is decided on dev. The run, with copies of its members, is `runs/results/DATA-ensemble`.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from benchmarks.machine import PROJECT, describe_source
from benchmarks.scorer_results import RUNS
from hopwalk import api
from hopwalk.run import Run, write_text

RESULTS = PROJECT / "results" / "ensembles"


def make_result(data: str, members: list[str]) -> Path:
    """Combine the runs, evaluate the ensemble, and write its result; the file."""
    folder = RUNS / f"{data}-ensemble"
    shutil.rmtree(folder, ignore_errors=True)
    runs = [RUNS / f"{data}-{member}" for member in members]
    api.combine_scorers(runs, out=folder)
    result = {
        "name": f"{data}-ensemble",
        "command": f"hopwalk ensemble {' '.join(f'runs/{run.name}' for run in runs)} --out runs/{folder.name}",
        "source": describe_source(),
        "data": Run.open(folder).about["dataset"],
        "members": [{"name": run.name, "valid_mrr": Run.open(run).about.get("valid_mrr")} for run in runs],
        "calibration": Run.open(folder).about["calibration"],
    }
    for split in ("valid", "test"):
        found = api.evaluate(folder, split).to_dict()
        result[split] = {key: found[key] for key in ("filter", "ties", "tails", "heads", "both", "strata")}
    write_text(RESULTS / f"{data}-ensemble.json", json.dumps(result, indent=1) + "\n")
    return RESULTS / f"{data}-ensemble.json"


def main() -> None:
    """Make the ensemble that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("members", nargs="+", metavar="SCORER-RECIPE-SEED")
    given = parser.parse_args()
    path = make_result(given.data, given.members)
    result = json.loads(path.read_text(encoding="utf-8"))
    print(path.name, *(f"{split} MRR {100 * result[split]['tails']['mrr']:.2f}" for split in ("valid", "test")))


if __name__ == "__main__":
    main()

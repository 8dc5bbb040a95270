"""A process that does cases one after the other, so that each costs milliseconds; the soak starts another one if it dies."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from random import Random

from tools.soak.outcome import Outcome

Case = Callable[[Random, Path, Path], Outcome]


def case_of(part: str) -> Case:
    """The function that does one case of a part."""
    if part == "kills":
        from tools.soak.kills import kill_case

        return kill_case
    if part == "damages":
        from tools.soak.damages import damage_case

        return damage_case
    from tools.soak.inputs import input_case

    return input_case


def run_case(part: str, seed: int, number: int, scratch: Path) -> Outcome:
    """Case `number` of a part: the same for the same seed, whatever was done before."""
    folder = scratch / part / str(number)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        return case_of(part)(Random(f"{seed}:{part}:{number}"), scratch, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def prepare_process() -> None:
    """Save often, after few queries, on one thread, as the cases expect it."""
    import torch

    from hopwalk.learning import training
    from hopwalk.reasoning import completing
    from hopwalk.reasoning.models import ScorerModel

    torch.set_num_threads(1)
    training.SECONDS_BETWEEN_CHECKPOINTS = 0.0
    completing.SECONDS_BETWEEN_RECORDS = 0.0
    ScorerModel.queries_at_once = property(lambda self: 8)  # type: ignore[assignment]


def main() -> None:
    """Read the numbers of cases from standard input, and print an outcome for each. Part `bases` makes what the others need."""
    part, seed, scratch = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a case prints is not a reply
    os.dup2(1, 2)
    prepare_process()
    if part == "bases":
        from tools.soak.bases import make

        make(scratch)
    for line in sys.stdin:
        outcome = asdict(run_case(part, seed, int(line), scratch))
        outcome["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(json.dumps(outcome), file=replies, flush=True)


if __name__ == "__main__":
    main()

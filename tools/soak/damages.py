"""Damaged run folders: they are opened, asked and resumed, and either refused or right."""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.support.villages import train_walker

from hopwalk import api
from hopwalk.data.dataset import Dataset
from hopwalk.learning import digests
from hopwalk.learning.run import Run
from tools.soak.bases import walker_settings
from tools.soak.mutations import spoilt
from tools.soak.outcome import Outcome, WrongError, judged


def damage_case(random: Random, scratch: Path, folder: Path) -> Outcome:
    """One run folder, damaged in one to three places."""
    bases = sorted(path.name for path in (scratch / "bases").iterdir() if path.is_dir())
    base = random.choice(bases)
    copy = folder / base
    shutil.copytree(scratch / "bases" / base, copy)
    done = [_damage(copy, random) for _ in range(random.choice((1, 1, 1, 2, 3)))]
    is_stated = random.random() < 0.6  # as if somebody who knows how had done it
    if is_stated:
        for run in {file.parent for file in copy.rglob("run.json")} | {copy}:
            try:
                digests.state_all(run, again=True)
            except Exception:  # what is there is not a file: the case goes on without
                is_stated = False
    outcome = Outcome(f"{base}: {', '.join(done)}{', stated' if is_stated else ''}", counts={"damages": 1})
    with judged(outcome):
        result = _used(base, copy, scratch)
        if not is_stated and not base.startswith("old-") and result != _expected(base, scratch):
            raise WrongError("another answer than before the damage")
    return outcome


def _damage(copy: Path, random: Random) -> str:
    files = sorted(path for path in copy.rglob("*") if path.is_file() and not path.is_symlink())
    if not files:
        return "nothing left"
    file = random.choice(files)
    name = str(file.relative_to(copy))
    if random.random() < 0.85:
        file.write_bytes(spoilt(file.read_bytes(), random, file.name))
        return f"{name} spoilt"
    other = random.choice(files)
    kind = random.choice(("removed", "emptied", "mixed up", "a folder", "a pipe", "a device", "a loop"))
    content = other.read_bytes()
    file.unlink()
    match kind:
        case "emptied":
            file.touch()
        case "mixed up":
            file.write_bytes(content)
        case "a folder":
            file.mkdir()
        case "a pipe":
            os.mkfifo(file)
        case "a device":
            file.symlink_to("/dev/zero")
        case "a loop":
            file.symlink_to(file)
    return f"{name} {kind}"


def _used(base: str, copy: Path, scratch: Path) -> Any:
    """What the run is good for: answers, scores, or the end of its training."""
    if base == "stopped":
        village = _dataset(scratch / "village")
        run = train_walker(village, walker_settings(), out=copy, resume=True)
        return [{name: value for name, value in record.items() if "seconds" not in name} for record in run.history]
    if base in ("walker", "propagation", "old-walker"):
        reasoner = api.load(copy)
        first = reasoner.dataset.labels_of(reasoner.dataset.train)[0]
        return str(reasoner.ask(first[0], first[1], k=5, num_paths=2))
    scorer, dataset = api.load_scorer(copy), Run.open(copy).dataset
    return scorer.numpy_scores(dataset.train.heads[:8], dataset.train.relations[:8]).tolist()


@cache
def _dataset(folder: Path) -> Dataset:
    return api.load_dataset(folder)


@cache
def _expected(base: str, scratch: Path) -> Any:
    copy = scratch / f"whole-{base}"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(scratch / "bases" / base, copy)
    return _used(base, copy, scratch)

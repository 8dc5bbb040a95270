"""How wide the beam should be, and whether paths are summed: what dev says of trained walkers, kept in `results/beams.json`.

    python -m benchmarks.beams fb15k-237-modern-complex-0 nell-995-modern-complex-0 [--beams 128 256 512] [--questions 1000]

Arguments are walkers that `hopwalk reproduce --runs runs/results` has trained. Nothing is trained, and test is not looked at.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from benchmarks.machine import PROJECT
from hopwalk.config.settings import changed
from hopwalk.learning.ranking import filtered_answers, metrics, split_queries, rank_answers
from hopwalk.learning.run import write_text
from hopwalk.paper.source import describe_source
from hopwalk.walker.decoding import Decoder
from hopwalk.walker.runs import TrainedWalker, load_walker
from hopwalk.walker.training import sample_queries

RUNS, RESULTS = PROJECT / "runs" / "results", PROJECT / "results" / "beams.json"


def measure(trained: TrainedWalker, beam: int, pooling: str, most: int) -> dict[str, Any]:
    """Dev MRR of tails by paths, and the share of answers that are not reached."""
    settings = changed(trained.settings, {"walk.beam": beam, "walker.pooling": pooling})
    queries = sample_queries(split_queries(trained.dataset, "valid"), most)
    known, start = filtered_answers(trained.dataset, "valid"), time.perf_counter()
    decoder = Decoder(trained.walker, settings, trained.scorer_logits)
    found = metrics(rank_answers(decoder.path_scores, queries, known, num_entities=len(trained.dataset.entities)))
    seconds = round(time.perf_counter() - start, 1)
    return {"beam": beam, "pooling": pooling, "valid_mrr": found.mrr, "unreached": found.unreached, "seconds": seconds}


def main() -> None:
    """Measure what is named, and write it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("walkers", nargs="+")
    parser.add_argument("--beams", type=int, nargs="+", default=[128, 256, 512])
    parser.add_argument("--questions", type=int, default=1000)
    given = parser.parse_args()
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for name in given.walkers:
        trained, rows = load_walker(RUNS / f"walker-{name}"), []
        for beam in given.beams:
            for pooling in ("max", "sum"):
                rows.append(measure(trained, beam, pooling, given.queries))
                print(name, rows[-1], flush=True)
        kept[name] = {"source": describe_source(), "questions": given.queries, "rows": rows}
    write_text(RESULTS, json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Width of the beam, and whether the paths of an entity are summed: dev MRR of trained walkers, kept in `results/beams.json`.

    python -m benchmarks.beams reproduction/runs/walker-nell-995-paper-conve-0 [--beams 128 256 512] [--queries 1000]

Nothing is trained, and test is not used.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import PROJECT
from benchmarks.results import load_results, parser_of, write_results
from hopwalk.config.settings import changed
from hopwalk.data.dataset import Dataset
from hopwalk.learning.metrics import metrics
from hopwalk.learning.ranking import filtered_answers, rank_answers, sample_queries, split_queries
from hopwalk.learning.run import Run
from hopwalk.paper.source import describe_source
from hopwalk.walker.decoding import Decoder
from hopwalk.walker.runs import load_decoder

RESULTS = PROJECT / "results" / "beams.json"


def measure(trained: Decoder, dataset: Dataset, beam: int, pooling: str, most: int) -> dict[str, Any]:
    """Dev MRR of tails by the policy, and the share of answers that are not reached."""
    settings = changed(trained.settings, {"walk.beam": beam, "walker.pooling": pooling})
    decoder = Decoder(trained.environment, settings)
    queries = sample_queries(split_queries(dataset, "valid"), most)
    known, start = filtered_answers(dataset, "valid"), time.perf_counter()
    found = metrics(rank_answers(decoder.scores, queries, known, num_entities=len(dataset.entities)))
    seconds = round(time.perf_counter() - start, 1)
    return {
        "beam": beam,
        "pooling": pooling,
        "valid_mrr": found.mrr,
        "unreached": found.unreached,
        "seconds": seconds,
    }


def measure_run(folder: Path, beams: Sequence[int], most: int) -> list[dict[str, Any]]:
    """All widths and both ways of pooling for one run."""
    run = Run.open(folder)
    decoder = load_decoder(run)
    return [measure(decoder, run.dataset, beam, pooling, most) for beam in beams for pooling in ("max", "sum")]


def main() -> None:
    """Measure the walkers that are named, and write the results."""
    parser = parser_of(__doc__)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of walkers")
    parser.add_argument("--beams", type=int, nargs="+", default=[128, 256, 512])
    parser.add_argument("--queries", type=int, default=1000, help="dev queries, at most")
    given = parser.parse_args()
    kept = load_results(RESULTS)
    for folder in given.runs:
        name, rows = folder.name.removeprefix("walker-"), measure_run(folder, given.beams, given.queries)
        print(name, *rows, sep="\n", flush=True)
        kept[name] = {"source": describe_source(), "queries": given.queries, "rows": rows}
    write_results(RESULTS, kept)


if __name__ == "__main__":
    main()

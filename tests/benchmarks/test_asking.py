"""The benchmark of asking: it runs, and its page shows the results; speed is not tested."""

from pathlib import Path

from benchmarks.results import load_results

from benchmarks import asking


def test_asking_is_measured_and_put_into_the_page(village_run: Path, tmp_path: Path):
    row = asking.throughput(village_run, num_queries=20, repeats=1)
    assert 5 < row["queries"] <= 20 and row["beam"] == 32 and row["together_per_second"] > 0 and row["same_answers"] > 0.9
    stages = asking.cold_start(village_run, ("child 0", "uncle"), repeats=1)
    assert set(stages) == {*asking.STAGES} and min(stages.values()) >= 0
    page = "before\n<!-- asking: cold -->\nstale\n<!-- end -->\nbetween\n<!-- asking: throughput -->\n<!-- end -->\nafter\n"
    text = asking.with_tables(page, {"cold": {"village": stages}, "throughput": {"village": row}})
    assert text.startswith("before\n") and text.endswith("after\n") and "stale" not in text and text.count("| village |") == 2


def test_propagation_is_measured_too(propagation_run: Path):
    row = asking.throughput(propagation_run, num_queries=4, repeats=1)
    assert (row["beam"], row["hops"], row["same_answers"]) == (None, 2, 1)
    cells = asking.tables({"cold": {}, "throughput": {"village": row}})["throughput"][1]
    assert cells[:3] == ["village", "2", ""]


def test_the_page_shows_the_results_of_asking():
    text = asking.PAGE.read_text(encoding="utf-8")
    assert all(text.count(f"<!-- asking: {name} -->") == 1 for name in ("cold", "throughput"))
    remedy = "fill in the tables with `python -m benchmarks.asking --tables`"
    assert asking.with_tables(text, load_results(asking.RESULTS)) == text, remedy

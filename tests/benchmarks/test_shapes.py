"""Awkward shapes: their edges, their file, and the figures of a small one."""

from pathlib import Path

import pytest
from benchmarks.results import load_results

import hopwalk
from benchmarks import shapes


@pytest.mark.parametrize("name", shapes.SHAPES)
def test_shapes_have_their_facts(tmp_path: Path, name: str):
    shapes.write_shape(tmp_path / "facts.tsv", name, 200)
    dataset = hopwalk.load_dataset(tmp_path / "facts.tsv")
    assert 150 <= len(dataset.facts) <= 200  # some random ones are the same
    largest = {"star": 200, "chain": 2, "clique": 19, "bipartite": 14}
    assert name not in largest or dataset.degrees.max() == largest[name]
    assert name != "200,000 relations" or len(dataset.relations) == 200


def test_the_page_has_the_results():
    page = shapes.PAGE.read_text(encoding="utf-8")
    assert shapes.with_tables(page) == page and "Not measured" not in shapes.with_tables(page)
    rows = shapes.table(load_results(shapes.RESULTS)["rows"])
    assert {len(row) for row in rows} == {len(rows[0])}

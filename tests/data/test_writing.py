"""What is written is read again as it was."""

from pathlib import Path

import pytest

import hopwalk
from tests.support.helpers import FAMILY, Fact, dataset_of, load_text


@pytest.mark.parametrize(
    ("facts", "suffix"),
    [
        (FAMILY, "tsv"),
        ([("a\tb", "r", "c")], "csv"),
        ([("a", "line\nbreak", 'say "x", y')], "csv"),
        ([('"', "r", ",")], "tsv"),
        ([("\ufeffa", "r", "b")], "csv"),
        ([("head", "relation", "tail")], "tsv"),
        ([("subject", "predicate\t", "object"), ("zoe", "r", "x")], "csv"),
    ],
)
def test_round_trip(tmp_path: Path, facts: list[Fact], suffix: str):
    dataset = dataset_of(facts)
    (path,) = hopwalk.write_folder(dataset, tmp_path / "out")
    assert path.name == f"train.{suffix}"
    assert hopwalk.load_dataset(tmp_path / "out").fingerprint == dataset.fingerprint


def test_all_parts_and_names(tmp_path: Path):
    labels = tmp_path / "names.tsv"
    labels.write_text("ann\tAnn O'Neill\nknows\tis acquainted with\n")
    facts = "".join("\t".join(fact) + "\n" for fact in FAMILY)
    named = load_text(tmp_path, facts, labels=str(labels))
    hopwalk.write_folder(named, tmp_path / "named")
    assert hopwalk.load_dataset(tmp_path / "named").fingerprint == named.fingerprint
    parts = dataset_of(FAMILY[:2], valid=FAMILY[2:3], test=FAMILY[3:4], facts=FAMILY)
    paths = hopwalk.write_folder(parts, tmp_path / "parts")
    assert [path.name for path in paths] == ["train.tsv", "valid.tsv", "test.tsv", "graph.tsv"]
    assert hopwalk.load_dataset(tmp_path / "parts").fingerprint == parts.fingerprint


def test_names_with_line_breaks(tmp_path: Path):
    turtle = '<http://a> <http://r> <http://b> ; <http://www.w3.org/2000/01/rdf-schema#label> "two\\nlines, \\"x\\"" .\n'
    dataset = load_text(tmp_path, turtle, "facts.ttl")
    assert dataset.entities.name(0) == 'two\nlines, "x"'
    hopwalk.write_folder(dataset, tmp_path / "out")
    assert hopwalk.load_dataset(tmp_path / "out").fingerprint == dataset.fingerprint

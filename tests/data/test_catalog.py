"""The catalog: names, and sizes as in the paper."""

from pathlib import Path

import pytest

import hopwalk
from hopwalk.data import catalog
from hopwalk.data.statistics import statistics
from hopwalk.errors import UnknownNameError

PARTS = ("num_entities", "num_relations", "num_facts", "num_facts_in_all", "num_train", "num_valid", "num_test")
COUNTS = {
    "umls": (135, 46, 5216, 6529, 5216, 652, 661),
    "kinship": (104, 25, 8544, 10686, 8544, 1068, 1074),
    "fb15k-237": (14541, 237, 272115, 310116, 272115, 17535, 20466),
    "wn18rr": (40943, 11, 86835, 93003, 86835, 3034, 3134),
    "nell-995": (75492, 200, 149678, 154213, 8747, 543, 2818),
}
# Mean and median degree as printed in the paper's Table 1, but for Kinship's mean, which the paper misprints as 85.15.
TABLE_1_DEGREES = {"umls": (38.63, 28), "kinship": (82.15, 82), "fb15k-237": (19.74, 14), "wn18rr": (2.19, 2)}
NEEDS_MIRROR = {"fb15k-237", "wn18rr", "nell-995"}
ALL = [pytest.param(name, marks=[pytest.mark.mirror] * (name in NEEDS_MIRROR)) for name in COUNTS]


@pytest.mark.parametrize("name", ALL)
def test_counts(name: str):
    dataset = hopwalk.load_dataset(name)
    counted = statistics(dataset)
    assert tuple(getattr(counted, part) for part in PARTS) == COUNTS[name]
    entry = catalog.get(name)
    assert (entry.entities, entry.relations, entry.facts) == COUNTS[name][:3]
    assert dataset.findings == ()
    if name in TABLE_1_DEGREES:
        mean, median = TABLE_1_DEGREES[name]
        assert counted.out_degree.mean == pytest.approx(mean, abs=0.01)
        assert counted.out_degree.median == median


@pytest.mark.mirror
def test_fb15k_237_entities_of_table_1_are_those_in_training():
    assert statistics(hopwalk.load_dataset("fb15k-237")).num_entities_in_graph == 14505


@pytest.mark.mirror
def test_nell_995_is_built_as_the_paper_did():
    nell = hopwalk.load_dataset("nell-995")
    assert nell.has_own_facts
    assert len(nell.held_back) == 3992 - 2818
    assert statistics(nell).num_query_relations == 12
    graph, train = set(nell.labels_of(nell.facts)), nell.labels_of(nell.train)
    assert graph.issuperset(train)
    assert graph.isdisjoint(nell.labels_of(nell.valid) + nell.labels_of(nell.test) + nell.labels_of(nell.held_back))
    final = nell.with_valid_in_training()
    assert (len(final.facts), len(final.train), len(final.valid)) == (149678 + 543, 8747 + 543, 0)
    unseen = [found.message for found in hopwalk.check(nell).findings if found.code == "unseen-entities"]
    assert len(unseen) == 1  # in valid; the entities of all test queries are in the graph
    assert "of valid" in unseen[0]


def test_bundled_sets_are_those_of_pykeen():
    import pykeen.datasets

    folder = Path(pykeen.datasets.__file__).parent
    ours = Path(catalog.__file__).parent / "bundled"
    for name, theirs in (("umls", "umls"), ("kinship", "kinships")):
        for file in ("train.txt", "valid.txt", "test.txt"):
            assert (ours / name / file).read_bytes() == (folder / theirs / file).read_bytes()


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("FB15k-237", "fb15k-237"),
        ("fb15k237", "fb15k-237"),
        ("FB15K_237", "fb15k-237"),
        ("kinships", "kinship"),
        ("WN18-RR", "wn18rr"),
        ("wnrr", "wn18rr"),
        ("NELL 995", "nell-995"),
        ("nell", "nell-995"),
        ("UMLS", "umls"),
    ],
)
def test_spelling_of_names(spelling: str, name: str):
    assert catalog.get(spelling).name == name


def test_unknown_name(in_folder: Path):
    with pytest.raises(UnknownNameError, match="Did you mean 'kinship'"):
        catalog.get("kinshp")
    with pytest.raises(UnknownNameError, match="The catalog has: umls, kinship"):
        catalog.get("zzzzzz")
    with pytest.raises(UnknownNameError, match=r"there is no data set and no file 'facts\.tvs'\. Did you mean 'facts\.tsv'"):
        (in_folder / "facts.tsv").touch()
        hopwalk.load_dataset("facts.tvs")


def test_every_entry_has_a_source_a_citation_and_a_licence():
    for entry in catalog.entries().values():
        assert entry.source
        assert entry.citation
        assert entry.licence
        assert entry.bundled != bool(entry.files)

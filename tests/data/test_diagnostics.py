"""Diagnostics of graphs with a known defect."""

import pytest

import hopwalk
from hopwalk.config.loading import load_settings
from hopwalk.config.settings import Settings
from hopwalk.data.findings import Finding
from tests.support.helpers import FAMILY, Fact, dataset_of


def findings(train: list[Fact], settings: Settings | None = None, **splits: list[Fact]) -> dict[str, Finding]:
    return {found.code: found for found in hopwalk.check(dataset_of(train, **splits), settings).findings}


def test_nothing_held_out():
    assert "no-held-out-facts" in findings(FAMILY)
    assert findings(FAMILY, valid=[("ann", "knows", "dan")])["no-held-out-facts"].message.endswith("test")


def test_unseen_and_self_loops():
    found = findings(
        [*FAMILY, ("ann", "knows", "ann")],
        valid=[("ann", "knows", "zoe"), ("zoe", "hates", "zoe")],
        test=[("ann", "knows", "bob")],
    )
    assert found["unseen-entities"].count == 2
    assert found["unseen-entities"].examples == ("zoe",)
    assert found["unseen-relations"].examples == ("hates",)
    assert found["self-loops"].examples == ("ann knows ann",)


def test_training_queries_with_entities_that_are_not_in_the_graph():
    assert "of train" in findings([("zoe", "knows", "max")], facts=FAMILY)["unseen-entities"].message


def test_columns_in_another_order():
    umls = hopwalk.load_dataset("umls")
    swapped = [(head, tail, relation) for head, relation, tail in umls.labels_of(umls.train)]
    assert findings(swapped)["columns-in-doubt"].level == "warning"
    assert "columns-in-doubt" not in findings(FAMILY)


def test_stray_blanks():
    assert findings([*FAMILY, ("ann ", "knows", "bob")])["stray-blanks"].examples == ("'ann '",)


def pairs(relation: str, other: str, count: int) -> list[Fact]:
    return [(f"a{number}", relation, f"b{number}") for number in range(count)] + [
        (f"b{number}", other, f"a{number}") for number in range(count)
    ]


def test_inverse_relations_and_the_answers_they_reveal():
    train = [*pairs("parent", "child", 10), ("b10", "child", "a10"), ("a11", "parent", "b11")]
    found = findings(train, test=[("a10", "parent", "b10"), ("b11", "child", "a11"), ("a1", "parent", "b2")])
    assert found["inverse-relations"].count == 2
    assert found["leaking-relations"].count == 2


def test_a_symmetric_relation_reveals_the_inverse_fact():
    found = findings([*pairs("married", "married", 10), ("x", "married", "y")], test=[("y", "married", "x")])
    assert found["inverse-relations"].examples == ("married / married (95%)",)
    assert found["leaking-relations"].count == 1


def test_self_loops_are_not_inverses():
    assert "inverse-relations" not in findings([(f"a{number}", "is", f"a{number}") for number in range(10)])


def test_duplicate_relations():
    train = [(f"a{number}", relation, f"b{number}") for number in range(10) for relation in ("in", "part_of")]
    found = findings([*train, ("x", "in", "y")], test=[("x", "part_of", "y")])
    assert found["duplicate-relations"].count == 2
    assert found["leaking-relations"].count == 1


def test_hubs_isolated_and_rare():
    star = [("hub", "r", f"leaf{number}") for number in range(120)]
    found = findings([*star, ("leaf1", "once", "leaf2")], test=[("hub", "r", "stranger")])
    assert found["hubs"].examples[0] == "hub (120)"
    assert found["isolated-entities"].count == 1
    assert found["rare-relations"].examples == ("once",)


def test_edges_removed_by_the_fan_out_limit():
    # hub → 6 leaves, and one leaf leads on to the answer; with 3 edges kept, the edge to that leaf must compete.
    star = [("hub", "r", f"leaf{number}") for number in range(6)]
    chain = [("leaf5", "r", "answer")]
    popular = [(f"leaf{number}", "q", f"friend{number}{other}") for number in range(3) for other in range(9)]
    settings = load_settings(overrides=["graph.fan_out=3", "walk.hops=2"])
    found = findings([*star, *chain, *popular], settings, test=[("hub", "s", "answer"), ("hub", "s", "friend00")])
    assert found["within-reach"].count == 2
    assert found["answers-cut-off"].count == 1
    assert found["fan-out"].count == (6 - 3) + 3 * (10 - 3)
    assert "answers-cut-off" not in findings([*star, *chain, *popular], test=[("hub", "s", "answer")])


@pytest.mark.parametrize("name", ["umls", "kinship"])
def test_bundled_sets(name: str):
    report = hopwalk.check(hopwalk.load_dataset(name), hopwalk.settings_for(name))
    assert {found.code for found in report.findings} >= {"within-reach", "inverse-relations", "rare-relations"}
    assert [found.level for found in report.findings] == sorted((found.level for found in report.findings), reverse=True)
    assert report.to_dict()["statistics"]["num_entities"] == report.statistics.num_entities

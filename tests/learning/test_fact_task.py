"""The ranking of facts: average precision worked out by hand, negatives, lists of others, and every kind of model."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import hopwalk
from hopwalk.data.dataset import Dataset
from hopwalk.data.triples import Triples
from hopwalk.errors import DataError, DivergedError, FileLimitError
from hopwalk.learning.fact_task import FactTask, evaluate_facts, ranks_among_false, read_task, sampled_task
from tests.support.helpers import dataset_of

UMLS = hopwalk.load_dataset("umls")
FACTS = [("a", "likes", "b"), ("a", "likes", "c"), ("d", "likes", "e"), ("a", "knows", "b"), ("d", "knows", "c")]


@pytest.fixture
def five() -> Dataset:
    return dataset_of(FACTS, test=[("d", "likes", "b"), ("d", "likes", "c"), ("d", "knows", "b")])


def task_of(dataset: Dataset, rows: list[tuple[str, str, str, bool]]) -> FactTask:
    ids = [(dataset.entities.id(h), dataset.relations.id(r), dataset.entities.id(t)) for h, r, t, _ in rows]
    return FactTask(Triples.of(ids), np.array([row[3] for row in rows]), "by hand")


def test_both_maps_are_those_worked_out_by_hand(five: Dataset):
    rows = [
        ("a", "likes", "b", True),
        ("a", "likes", "c", True),
        ("a", "likes", "d", False),
        ("a", "likes", "e", False),
        ("d", "likes", "b", True),
        ("d", "likes", "c", False),
        ("a", "knows", "b", True),
        ("a", "knows", "e", False),
    ]
    scores = np.array([0.9, 0.3, 0.5, 0.1, 0.2, 0.8, 0.7, 0.7])
    found = evaluate_facts(task_of(five, rows), scores, five)
    likes, knows = found.relations["likes"], found.relations["knows"]
    # a likes: b d c e, so (1/1 + 2/3) / 2; d likes: c b, so 1/2.
    assert likes.link_map == pytest.approx(((1 + 2 / 3) / 2 + 1 / 2) / 2)
    # All of likes: ab 0.9, dc 0.8, ad 0.5, ac 0.3, db 0.2, ae 0.1: the true ones are in places 1, 4 and 5.
    assert likes.fact_precision == pytest.approx((1 / 1 + 2 / 4 + 3 / 5) / 3)
    assert knows.link_map == knows.fact_precision == pytest.approx(1 / 1.5)  # a tie: the mean of places 1 and 2
    assert found.link_map == pytest.approx((likes.link_map + knows.link_map) / 2)
    assert found.fact_map == pytest.approx((likes.fact_precision + knows.fact_precision) / 2)
    assert (likes.num_queries, likes.num_true, likes.num_false) == (2, 3, 3)
    assert (found.num_true, found.num_false, found.left_out) == (4, 4, 0)


def test_facts_out_of_reach_are_tied_behind_all_others(five: Dataset):
    rows = [("a", "likes", tail, tail == "b") for tail in "bcde"]
    ranks = ranks_among_false(*_columns(task_of(five, rows)), np.array([-np.inf, 0.1, -np.inf, -np.inf]))
    assert ranks.optimistic.tolist() == [2] and ranks.pessimistic.tolist() == [4]


def _columns(task: FactTask) -> tuple[Triples, np.ndarray]:
    return task.facts, task.is_true


def test_queries_without_true_or_without_false_facts_are_left_out(five: Dataset):
    rows = [("a", "likes", "b", True), ("a", "likes", "e", False), ("d", "likes", "c", False), ("a", "knows", "b", True)]
    found = evaluate_facts(task_of(five, rows), np.array([1.0, 0.0, 3.0, 1.0]), five)
    assert found.left_out == 2 and list(found.relations) == ["likes"] and found.link_map == 1
    with pytest.raises(DataError, match="no query has both"):
        evaluate_facts(task_of(five, rows[2:]), np.zeros(2), five)


def test_scores_that_are_no_numbers_are_an_error(five: Dataset):
    with pytest.raises(DivergedError, match="not a number"):
        evaluate_facts(task_of(five, [("a", "likes", "b", True)]), np.array([np.nan]), five)


def test_sampled_negatives_are_tails_of_the_relation_and_not_known(five: Dataset):
    task = sampled_task(five, num_negatives=10)
    false = five.labels_of(task.facts[~task.is_true])
    # d likes e is known, and b and c are in test; d knows c is known. Tails of likes are b, c, e, of knows b and c.
    assert false == []
    only = dataset_of([*FACTS, ("b", "likes", "d")], test=[("d", "likes", "b")])
    task = sampled_task(only)
    assert sorted(only.labels_of(task.facts[~task.is_true])) == [("d", "likes", "c"), ("d", "likes", "d")]


def test_the_number_of_negatives_and_the_seed_hold():
    one, same, other = (sampled_task(UMLS, num_negatives=3, seed=seed) for seed in (1, 1, 2))
    false = one.facts[~one.is_true].array()
    assert np.array_equal(false, same.facts[~same.is_true].array())
    assert not np.array_equal(false, other.facts[~other.is_true].array())
    pairs, counts = np.unique(false[:, :2], axis=0, return_counts=True)
    test_pairs, test_counts = np.unique(UMLS.test.array()[:, :2], axis=0, return_counts=True)
    most = {tuple(pair): 3 * count for pair, count in zip(test_pairs.tolist(), test_counts.tolist(), strict=True)}
    assert all(count <= most[tuple(pair)] for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True))
    assert len(np.unique(false, axis=0)) == len(false)
    assert not set(map(tuple, false.tolist())) & set(map(tuple, UMLS.all_facts().array().tolist()))


def test_a_list_of_facts(five: Dataset, tmp_path: Path):
    path = tmp_path / "facts.tsv"
    path.write_text("d\tlikes\tb\t+\nd\tlikes\ta\t-\nd\tlikes\tnobody\t-\n")
    task = read_task(path, five)
    labels = dict(zip(five.labels_of(task.facts), task.is_true.tolist(), strict=True))
    assert labels == {("d", "likes", "b"): True, ("d", "likes", "a"): False}
    assert task.left_out == 1


def test_the_released_folder_of_tasks(tmp_path: Path):
    nell = dataset_of([("concept_a", "concept:playsfor", "concept_b"), ("concept_c", "concept:playsfor", "concept_d")])
    folder = tmp_path / "tasks" / "concept_playsfor"
    folder.mkdir(parents=True)
    (folder / "sort_test.pairs").write_text("thing$concept_a,thing$concept_b: +\nthing$concept_a,thing$concept_d: -\n")
    task = read_task(tmp_path / "tasks", nell)
    labels = dict(zip(nell.labels_of(task.facts), task.is_true.tolist(), strict=True))
    relation = "concept:playsfor"
    assert labels == {("concept_a", relation, "concept_b"): True, ("concept_a", relation, "concept_d"): False}


@pytest.mark.parametrize(
    ("text", "problem"),
    [("a\tlikes\tb\n", "expected head"), ("a\tlikes\tb\tmaybe\n", "expected head"), ("x\tlikes\ty\t+\n", "none of the 1")],
)
def test_lists_that_cannot_be_read(five: Dataset, tmp_path: Path, text: str, problem: str):
    path = tmp_path / "facts.tsv"
    path.write_text(text)
    with pytest.raises(DataError, match=problem):
        read_task(path, five)
    with pytest.raises(DataError, match="cannot be read"):
        read_task(tmp_path / "missing.tsv", five)
    with pytest.raises(DataError, match="no files"):
        read_task(tmp_path, five)


def test_a_pipe_in_place_of_the_list(five: Dataset, tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileLimitError, match="this is a named pipe, not a file"):
        read_task(tmp_path / "pipe", five)

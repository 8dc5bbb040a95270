"""Folding of stated inverses: by their names and their facts."""

from pathlib import Path

import pytest

import hopwalk
from hopwalk.data.inverses import named_inverses
from tests.support.helpers import facts_of, finding, load_text


@pytest.mark.parametrize(
    "inverse", ["r_inv", "_r", "inverse_r", "inv_r", "reverse_r", "r_inverse", "r_reverse", "r_reversed", "r^-1", "r⁻¹"]
)
def test_facts_of_an_inverse_relation_are_folded(tmp_path: Path, inverse: str):
    dataset = load_text(tmp_path, f"a\tr\tb\nb\t{inverse}\ta\nd\t{inverse}\tc\n")
    assert facts_of(dataset) == {("a", "r", "b"), ("c", "r", "d")}
    assert finding(dataset, "inverse-relations-folded").examples == (f"{inverse} → r",)


def test_a_name_is_an_inverse_only_if_its_base_exists():
    assert named_inverses({"r", "r_inv", "_q", "s_inverse", "s"}) == {"r_inv": "r", "s_inverse": "s"}
    assert named_inverses({"r", "r_inv", "_r_inv"}) == {"r_inv": "r"}  # not the inverse of an inverse


def test_names_alone_do_not_make_an_inverse(tmp_path: Path):
    dataset = load_text(tmp_path, "a\tr\tb\na\tr_inv\tc\nb\tr_inv\tc\n")
    assert list(dataset.relations) == ["r", "r_inv"]


def test_inverses_are_kept_apart_on_request(tmp_path: Path):
    settings = hopwalk.load_settings(overrides=["read.fold_inverses=false"])
    (tmp_path / "facts.tsv").write_text("a\tr\tb\nb\tr_inv\ta\n")
    dataset = hopwalk.load_dataset(tmp_path / "facts.tsv", settings)
    assert list(dataset.relations) == ["r", "r_inv"]

"""Data sets by name or path, and prepared folders."""

from pathlib import Path

import pytest

import hopwalk
from hopwalk.errors import DataError, SettingsError
from tests.support.helpers import FAMILY, dataset_of, is_mapped


def test_a_prepared_folder_opens(tmp_path: Path):
    dataset = dataset_of(FAMILY, valid=[("ann", "knows", "dan")])
    path = hopwalk.prepare(dataset, tmp_path / "p")
    assert path.parent == tmp_path / "p" and [*path.parent.iterdir()] == [path]
    opened = hopwalk.load_dataset(tmp_path / "p")
    assert opened.fingerprint == dataset.fingerprint
    assert is_mapped(opened.facts.heads)


def test_a_folder_can_be_prepared_again(tmp_path: Path):
    hopwalk.prepare(dataset_of(FAMILY), tmp_path / "p")
    other = dataset_of(FAMILY[1:])
    hopwalk.prepare(other, tmp_path / "p")
    assert hopwalk.load_dataset(tmp_path / "p").fingerprint == other.fingerprint


def test_text_files_and_a_prepared_data_set_in_one_folder_are_refused(tmp_path: Path):
    hopwalk.prepare(dataset_of(FAMILY), tmp_path / "p")
    (tmp_path / "p" / "train.tsv").write_text("a\tr\tb\n")
    with pytest.raises(DataError, match="the folder has both a prepared data set and text files"):
        hopwalk.load_dataset(tmp_path / "p")
    with pytest.raises(DataError, match=r"the folder has the text file train\.tsv"):
        hopwalk.prepare(dataset_of(FAMILY), tmp_path / "p")


def test_reading_settings_do_not_apply_to_other_data(tmp_path: Path):
    hopwalk.prepare(dataset_of(FAMILY), tmp_path / "p")
    for data in ("umls", tmp_path / "p"):
        with pytest.raises(SettingsError, match=r"read\.columns does not apply to .*\. Remove the setting\."):
            hopwalk.load_dataset(data, hopwalk.load_settings(overrides=["read.columns=1,3,2"]))

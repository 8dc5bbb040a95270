"""Folders as bytes: the same files arrive, all or none, and none outside."""

from pathlib import Path

import pytest

from hopwalk.errors import SavedFileError
from hopwalk.utils.packing import pack, replace_folder, size_of, unpack


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "run"
    (made / "scorer").mkdir(parents=True)
    (made / "run.json").write_text("{}")
    (made / "weights.bin").write_bytes(b"\x00\xff")
    (made / "scorer" / "run.json").write_text("[]")
    (made / ".half-written").write_text("x")
    (made / "tensorboard").mkdir()
    (made / "tensorboard" / "events").write_text("x")
    return made


def test_the_same_files_arrive(folder: Path, tmp_path: Path):
    packed = pack(folder, without=frozenset({"tensorboard"}))
    assert packed == {"run.json": b"{}", "scorer/run.json": b"[]", "weights.bin": b"\x00\xff"}
    assert size_of(packed) == 6
    unpack(packed, tmp_path / "there")
    assert pack(tmp_path / "there") == packed
    assert pack(tmp_path / "nowhere") == {}


def test_a_folder_is_replaced_as_a_whole(folder: Path, tmp_path: Path):
    replace_folder({"run/run.json": b"new", "run.source.json": b"beside"}, folder)
    assert pack(folder) == {"run.json": b"new"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run.source.json"]


@pytest.mark.parametrize("name", ["../run.json", "/etc/hopwalk", "a/../../b", ""])
def test_nothing_is_written_outside(name: str, tmp_path: Path):
    with pytest.raises(SavedFileError, match="a file outside itself"):
        unpack({name: b"x"}, tmp_path / "there")
    assert not (tmp_path / "run.json").exists() and not (tmp_path / "there").exists()

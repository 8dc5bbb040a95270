"""OpenKE folders."""

from pathlib import Path

import pytest

import hopwalk
from hopwalk.errors import DataError
from tests.support.helpers import facts_of, finding


def write(folder: Path, **files: str) -> Path:
    """Files by name, `__` for the dot."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


OPENKE = {
    "entity2id__txt": "3\nann\t0\nbob smith\t2\ncat\t1\n",
    "relation2id__txt": "1\nknows\t0\n",
    "train2id__txt": "2\n0 2 0\n2 1 0\n",
    "valid2id__txt": "1\n0 1 0\n",
}


class TestOpenKE:
    def test_ids_become_labels(self, tmp_path: Path):
        dataset = hopwalk.load_dataset(write(tmp_path, **OPENKE))
        assert facts_of(dataset) == {("ann", "knows", "bob smith"), ("bob smith", "knows", "cat")}
        assert facts_of(dataset, "valid") == {("ann", "knows", "cat")}

    @pytest.mark.parametrize(
        ("file", "text", "line", "message"),
        [
            ("train2id__txt", "1\n0 3 0\n", 2, "the tail id 3 is not in the table of 3 ids"),
            ("train2id__txt", "2\n0 1 0\n0 1 7\n", 3, "the relation id 7 is not in the table of 1 ids"),
            ("train2id__txt", "1\n0 -1 0\n", 2, "the tail id -1"),
            ("train2id__txt", "1\n0 x 0\n", 2, "column 2 is not valid: expected a whole number, found 'x'"),
            ("train2id__txt", "1\n0 99999999999999999999 0\n", 2, "expected a whole number"),
            ("train2id__txt", "0 1 0\n", 1, "the first line is not a number of lines"),
            ("train2id__txt", "", 1, "the first line is not a number of lines"),
            ("train2id__txt", "0\n", None, "the folder has no training facts"),
            ("train2id__txt", "1\n0 1\n", 2, "expected 3 columns"),
            ("entity2id__txt", "2\nann\t0\nann\t1\n", None, "the label 'ann' is not unique"),
            ("entity2id__txt", "2\nann\t0\nbob\t0\n", None, "the id 0 is not unique"),
        ],
    )
    def test_bad_files(self, tmp_path: Path, file: str, text: str, line: int | None, message: str):
        with pytest.raises(DataError, match=message) as error:
            hopwalk.load_dataset(write(tmp_path, **{**OPENKE, file: text}))
        assert error.value.line == line

    def test_a_wrong_number_of_lines_is_a_warning(self, tmp_path: Path):
        dataset = hopwalk.load_dataset(write(tmp_path, **{**OPENKE, "train2id__txt": "5\n0 2 0\n2 1 0\n"}))
        assert finding(dataset, "count-mismatch").count == 3

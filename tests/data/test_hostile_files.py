"""Files made to do harm: each is refused with an error of ours, in bounded time and memory."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import hopwalk
from hopwalk.config.settings import Settings, changed
from hopwalk.data import parquet, rows, source
from hopwalk.errors import DataError, HopwalkError, SavedFileError
from hopwalk.utils.arrays import ArrayFile, saving
from tests.support.schools import SCHOOL

FACTS = "".join(f"a{number}\tr\tb\n" for number in range(50))


class TestCompressedFiles:
    @pytest.fixture
    def bomb(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """2 MB of facts in some kilobytes."""
        monkeypatch.setattr(source, "FREE_EXPANSION", 10**6)
        (tmp_path / "facts.tsv.gz").write_bytes(gzip.compress(b"a\tr\tb\n" * 340_000))
        return tmp_path / "facts.tsv.gz"

    def test_the_ratio_is_limited(self, bomb: Path):
        with pytest.raises(DataError, match=r"expands to more than 100 times its size\. .* set read\.expansion"):
            hopwalk.load_dataset(bomb)

    def test_the_limit_can_be_raised(self, bomb: Path):
        assert len(hopwalk.load_dataset(bomb, changed(Settings(), {"read.expansion": 1000})).train) == 1

    def test_the_size_is_limited(self, bomb: Path):
        settings = changed(Settings(), {"read.expansion": 1000, "read.expanded_mb": 1})
        with pytest.raises(DataError, match=r"more than 1 MB when it is expanded\. .* set read\.expanded_mb"):
            hopwalk.load_dataset(bomb, settings)

    def test_it_is_expanded_piece_by_piece(self, bomb: Path, monkeypatch: pytest.MonkeyPatch):
        sizes: list[int] = []
        read = gzip.GzipFile.read

        def noting(self: gzip.GzipFile, size: int = -1) -> bytes:
            sizes.append(size)
            return read(self, size)

        monkeypatch.setattr(gzip.GzipFile, "read", noting)
        with pytest.raises(DataError):
            hopwalk.load_dataset(bomb)
        assert sizes and all(0 < size <= 2**20 for size in sizes)

    def test_small_files_may_expand_as_they_like(self, tmp_path: Path):
        (tmp_path / "facts.tsv.gz").write_bytes(gzip.compress(b"a\tr\tb\n" * 300_000))
        assert len(hopwalk.load_dataset(tmp_path / "facts.tsv.gz").train) == 1


class TestLongLines:
    @pytest.fixture(autouse=True)
    def short(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rows, "LONGEST_LINE", 1000)

    @pytest.mark.parametrize("suffix", ["tsv", "csv"])
    @pytest.mark.parametrize(("before", "line"), [("", 1), (FACTS, 51)])
    @pytest.mark.parametrize("long", ["x" * 1001, f"a\tr\t{'x' * 1000}\n", '"' + "x" * 5000])
    def test_they_are_refused_with_their_line(self, tmp_path: Path, suffix: str, before: str, line: int, long: str):
        path = tmp_path / f"facts.{suffix}"
        path.write_text((before + long).replace("\t", "," if suffix == "csv" else "\t"))
        with pytest.raises(DataError, match="the line is longer than") as raised:
            hopwalk.load_dataset(path)
        assert raised.value.line == line

    def test_lines_of_the_longest_length_are_read(self, tmp_path: Path):
        label = "x" * (1000 - len("a\tr\t\n"))
        (tmp_path / "facts.tsv").write_text(FACTS + f"a\tr\t{label}\n" + FACTS)
        assert len(hopwalk.load_dataset(tmp_path / "facts.tsv").train) == 51


class TestParquet:
    @pytest.fixture
    def whole(self, tmp_path: Path) -> Path:
        facts = {"head": [f"a{number}" for number in range(60)], "relation": ["r", "s"] * 30, "tail": ["b", "c", "d"] * 20}
        pl.DataFrame(facts).write_parquet(tmp_path / "facts.parquet")
        return tmp_path / "facts.parquet"

    def test_damaged_bytes(self, whole: Path, capfd: pytest.CaptureFixture[str]):
        """Damage that ended the process, or made it print backtraces: errors of ours, or the facts that are still there."""
        content, random = whole.read_bytes(), np.random.default_rng(0)
        failed = 0
        for _ in range(12):
            damaged = bytearray(content)
            for place in random.integers(4, len(content), size=3):
                damaged[place] = random.integers(256)
            whole.write_bytes(damaged)
            try:
                hopwalk.load_dataset(whole)
            except HopwalkError as error:
                failed += 1
                assert len(str(error)) < 1500
        assert failed
        assert capfd.readouterr().err == ""

    def test_a_process_that_dies_is_an_error(self, whole: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        (tmp_path / "dying.py").write_text("import os\nos.abort()\n")
        monkeypatch.setattr("hopwalk.data.parquet_child.__file__", str(tmp_path / "dying.py"))
        with pytest.raises(DataError, match="the Parquet file is not valid: it cannot be read in the memory there is"):
            hopwalk.load_dataset(whole)

    def test_the_memory_is_limited(self, whole: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(parquet, "OVERHEAD_BYTES", 10**8)
        with pytest.raises(DataError, match="it cannot be read in the memory there is"):
            hopwalk.load_dataset(whole, changed(Settings(), {"read.expanded_mb": 1}))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
class TestPipesAndDevices:
    def test_in_place_of_data(self, tmp_path: Path):
        os.mkfifo(tmp_path / "facts.tsv")
        with pytest.raises(HopwalkError, match="this is a named pipe, not a file"):
            hopwalk.load_dataset(tmp_path / "facts.tsv")
        with pytest.raises(HopwalkError, match="this is a device, not a file"):
            hopwalk.load_dataset(Path("/dev/zero"))

    @pytest.mark.parametrize("name", ["run.json", "settings.toml", "dataset.safetensors", "weights.safetensors", "digests.json"])
    def test_in_place_of_a_file_of_a_run(self, copied: Path, name: str):
        (copied / name).unlink()
        os.mkfifo(copied / name)
        with pytest.raises(HopwalkError, match="this is a named pipe, not a file"):
            hopwalk.load(copied)

    def test_in_place_of_the_folder_of_a_run(self, tmp_path: Path):
        os.mkfifo(tmp_path / "run")
        with pytest.raises(HopwalkError, match="this is a named pipe, not a file"):
            hopwalk.train_scorer(SCHOOL, out=tmp_path / "run")

    def test_in_place_of_rows_of_a_completion(self, copied: Path, tmp_path: Path):
        os.mkfifo(tmp_path / "new.tsv.part")
        with pytest.raises(HopwalkError, match="this is a named pipe, not a file"):
            hopwalk.load(copied).complete(tmp_path / "new.tsv")

    def test_in_place_of_settings(self, tmp_path: Path):
        os.mkfifo(tmp_path / "settings.toml")
        with pytest.raises(HopwalkError, match="this is a named pipe, not a file"):
            hopwalk.load_settings(tmp_path / "settings.toml")

    def test_standard_input_is_read(self):
        code = "import hopwalk; print(len(hopwalk.load_dataset('/dev/stdin').train))"
        done = subprocess.run([sys.executable, "-c", code], input=FACTS, capture_output=True, text=True, check=True)
        assert done.stdout == "50\n"


DEEP = 100_000
HOSTILE_JSON = {
    "nested lists": "[" * DEEP,
    "nested objects": '{"a":' * DEEP,
    "nested and whole": '{"a":' * 200 + "1" + "}" * 200,
    "5,000 digits": '{"format": ' + "9" * 5000 + "}",
    "10 to the 400": '{"format": 1e400}',
    "10 to the 400, whole": '{"format": 1' + "0" * 400 + "}",
    "not a number": '{"format": NaN}',
    "infinite": '{"format": -Infinity}',
}


@pytest.mark.parametrize("name", HOSTILE_JSON)
def test_hostile_json(copied: Path, name: str):
    (copied / "run.json").write_text(HOSTILE_JSON[name])
    with pytest.raises(HopwalkError, match="the file is damaged or cannot be read") as raised:
        hopwalk.load(copied)
    assert len(str(raised.value)) < 1500


HOSTILE_TOML = {
    "nested lists": "a = " + "[" * DEEP,
    "nested tables": "[" + ".".join("a" * 5000) + "]",
    "5,000 digits": "[walker]\nseed = " + "9" * 5000,
    "a huge seed": "[walker]\nseed = 100000000000000000000000",
    "a huge dimension": "[walker]\ndimension = 1000000000",
    "many layers": "[walker]\nhistory_layers = 1000000000",
    "not a number": "[walker]\nlearning_rate = nan",
    "infinite": "[walker]\nlearning_rate = inf",
    "10 to the 400": "[walker]\nlearning_rate = 1e400",
    "a long name": f"[walker]\n{'x' * 70_000} = 1",
    "a long value": f"[read]\nformat = '{'x' * 70_000}'",
}


@pytest.mark.parametrize("name", HOSTILE_TOML)
def test_hostile_toml(tmp_path: Path, copied: Path, name: str):
    for path in (tmp_path / "settings.toml", copied / "settings.toml"):
        path.write_text(HOSTILE_TOML[name])
        with pytest.raises(HopwalkError) as raised:
            hopwalk.load_settings(path) if path.parent == tmp_path else hopwalk.load(copied)
        assert len(str(raised.value)) < 1500


@pytest.mark.parametrize("text", ["[" * DEEP, '{"kind": ' + "9" * 5000 + "}", '{"kind": NaN}'])
def test_hostile_metadata(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("hopwalk.utils.arrays.json.dumps", lambda value, **_: text if "checksum" in value else _dumps(value))
    with saving(tmp_path / "file", {"a": np.zeros(3, np.float32)}, {"kind": "x"}):
        pass
    monkeypatch.undo()
    with pytest.raises(SavedFileError, match="this is not a whole hopwalk file"):
        ArrayFile(tmp_path / "file", kind="x")


def _dumps(value: object) -> str:
    from json.encoder import JSONEncoder

    return JSONEncoder(separators=(",", ":")).encode(value)


def test_messages_are_cut():
    error = HopwalkError("x" * 70_000, path="p" * 5000, remedy="r" * 70_000)
    assert len(str(error)) < 2000 and "…" in str(error)

"""Completion in shards: joined, resumed and refused. The same on a real cluster: `tests/test_ray.py`."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hopwalk import api
from hopwalk.errors import HopwalkError, SettingsError
from hopwalk.reasoning import sharding
from hopwalk.reasoning.completing import FORMATS
from hopwalk.reasoning.reasoner import Reasoner
from hopwalk.reasoning.walker_model import WalkerModel
from hopwalk.utils.places import Here, OnReport, ignore


class There(Here):
    """This process as if it were another, which does the last pieces first and some of them only."""

    is_here = False

    def __init__(self, most: int = 1_000) -> None:
        self.most, self.done = most, 0

    def run(
        self, make_work: Callable[[], Any], pieces: Iterable[Any], on_report: OnReport[Any] = ignore
    ) -> Iterator[tuple[Any, Any]]:
        for piece, result in super().run(make_work, reversed(list(pieces)), on_report):
            if self.done == self.most:
                raise KeyboardInterrupt
            self.done += 1
            yield piece, result


@pytest.fixture
def reasoner(village_run: Path, monkeypatch: pytest.MonkeyPatch) -> Reasoner:
    monkeypatch.setattr(WalkerModel, "queries_at_once", 20)
    monkeypatch.setattr(sharding, "BATCHES_OF_SHARD", 1)
    return api.load(village_run)


@pytest.mark.parametrize("suffix", FORMATS)
def test_shards_give_the_file_of_one_process_though_interrupted(reasoner: Reasoner, tmp_path: Path, suffix: str):
    whole, target = tmp_path / f"whole{suffix}", tmp_path / f"new{suffix}"
    here = reasoner.complete(whole, above=0.02)
    with pytest.raises(KeyboardInterrupt):
        reasoner.complete(target, above=0.02, place=There(most=3))
    shards = tmp_path / f"new{suffix}.shards"
    assert len(list(shards.glob("0-*"))) == 3 and not target.exists()
    with pytest.raises(HopwalkError, match="an interrupted run has left its shards"):
        reasoner.complete(target, above=0.02, place=There())
    with pytest.raises(HopwalkError, match="begun with other options"):
        reasoner.complete(target, above=0.03, resume=True, place=There())
    rest = There()
    there = reasoner.complete(target, above=0.02, resume=True, place=rest)
    assert target.read_bytes() == whole.read_bytes() and not shards.exists()
    assert (there.queries, there.facts) == (here.queries, here.facts)
    assert there_is_nothing_left_to_do(reasoner, target, tmp_path)
    assert rest.done > 4 and 0 < there.queries_of_session < there.queries


def there_is_nothing_left_to_do(reasoner: Reasoner, target: Path, folder: Path) -> bool:
    """In shards or not, also after a kill before the shards were removed."""
    content, shards = target.read_bytes(), folder / f"{target.name}.shards"
    shards.mkdir()
    (shards / "0-00000000").touch()
    found = [reasoner.complete(target, above=0.02, resume=True, place=place) for place in (There(), None)]
    return all(one.was_complete for one in found) and target.read_bytes() == content and not shards.exists()


def test_a_kill_before_the_record_of_the_end(reasoner: Reasoner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The table is there, and all the shards: it is joined again."""
    target = tmp_path / "new.tsv"

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(sharding, "write_completed", stop)
        reasoner.complete(target, above=0.02, place=There())
    content = target.read_bytes()
    reasoner.complete(target, above=0.02, resume=True, place=There())
    assert target.read_bytes() == content and {path.name for path in tmp_path.iterdir()} == {"new.tsv", "new.tsv.progress.json"}


def test_mistakes_are_refused(reasoner: Reasoner, trained_scorer: Any, tmp_path: Path):
    target = tmp_path / "new.tsv"
    with pytest.raises(SettingsError, match=r"the format of new\.txt is not known"):
        reasoner.complete(tmp_path / "new.txt", place=There())
    with pytest.raises(HopwalkError, match="an embedding model has no paths"):
        api.load(trained_scorer.path).complete(target, place=There())
    facts = [("child 1", "knows", "child 2"), ("child 2", "knows", "child 1"), ("child 3", "knows", "child 1")]
    with pytest.raises(SettingsError, match="facts were added"):
        reasoner.with_facts(facts).complete(target, place=There())
    (tmp_path / "new.tsv.shards").mkdir()
    (tmp_path / "new.tsv.shards" / "mine.txt").touch()
    with pytest.raises(HopwalkError, match="the folder is not empty"):
        reasoner.complete(target, place=There())
    (tmp_path / "new.tsv.shards" / "record.json").write_text("{")
    with pytest.raises(HopwalkError, match="the record of the shards is damaged"):
        reasoner.complete(target, resume=True, place=There())
    (tmp_path / "new.tsv.shards" / "record.json").unlink()
    target.touch()
    with pytest.raises(HopwalkError, match="already a file of that name"):
        reasoner.complete(target, resume=True, place=There())

"""Malformed inputs of every reader: facts in all formats, settings, queries, commands, results, progress of completing."""

from __future__ import annotations

import contextlib
import io
import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.support.fuzzing import MINERVA, OPENKE, WHOLE_FILES, check_round_trip, load, load_files

from hopwalk import api
from hopwalk.cli import main
from hopwalk.config.loading import commented_toml, load_settings
from hopwalk.config.settings import Settings, dotted_names
from hopwalk.learning.fact_task import read_task
from hopwalk.paper.ledger import Ledger
from hopwalk.reasoning.facts import read_facts
from hopwalk.reasoning.reasoner import Reasoner
from hopwalk.tuning.spaces import load_space
from tools.soak.bases import ABOVE
from tools.soak.mutations import TOML_VALUES, spoilt, spoilt_bytes
from tools.soak.outcome import Outcome, WrongError, judged

RDF_XML = b"""<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="http://x/">
<rdf:Description rdf:about="http://x/a"><x:r rdf:resource="http://x/b"/></rdf:Description>
</rdf:RDF>
"""
FACTS: dict[str, dict[str, bytes]] = {
    **{name: {name: content} for name, content in WHOLE_FILES.items() if not name.endswith(".parquet")},
    "facts.rdf": {"facts.rdf": RDF_XML},
    "facts.nq": {"facts.nq": b"<http://a> <http://r> <http://b> <http://g> .\n"},
    "facts.jsonld": {"facts.jsonld": b'{"@id": "http://a", "http://r": {"@id": "http://b"}}'},
    "OpenKE": OPENKE,
    "MINERVA": MINERVA,
}
PARQUET = {"facts.parquet": WHOLE_FILES["facts.parquet"]}
READ: list[dict[str, Any]] = [
    *({}, {}, {}, {"fold_inverses": False}, {"header": "yes"}, {"header": "no"}, {"quote": "yes"}, {"separator": ","}),
    *({"columns": "1,2,3"}, {"columns": "tail,relation,head"}, {"format": "table"}, {"format": "triples"}, {"format": "rdf"}),
]
SPACE = b"""[propagation]
width = [8, 16]

[propagation.learning_rate]
low = 0.001
high = 0.1
log = true

[walker]
rollouts = [1]
"""
QUERIES = b"child 0\tuncle\nmother 1\tbrother\nchild 2\tmother\n"
LABELLED = b"child 0\tuncle\tman 1\t+\nchild 0\tuncle\tman 2\t-\n"
NEW_FACTS = b"child 0\tknows\tman 1\nnewcomer\tmother\tmother 1\n"
Read = Callable[[Random, Path, Path], str]


def input_case(random: Random, scratch: Path, folder: Path) -> Outcome:
    """One malformed input of one reader."""
    names = [*READERS]
    name = random.choices(names, [READERS[name][1] for name in names])[0]
    outcome = Outcome(name, counts={"inputs": 1})
    with judged(outcome):
        READERS[name][0](random, scratch, folder)
    return outcome


def _facts(files: dict[str, bytes]) -> Callable[[Random, Path, Path], None]:
    def read(random: Random, scratch: Path, folder: Path) -> None:
        chosen = random.choice([*files])
        made = {name: spoilt_bytes(content, random) if name == chosen else content for name, content in files.items()}
        (folder / "data").mkdir()
        dataset = load_files(folder / "data", made, **random.choice(READ))
        if random.random() < 0.1:
            check_round_trip(dataset, folder)

    return read


def _prepared(random: Random, scratch: Path, folder: Path) -> None:
    (folder / "dataset.safetensors").write_bytes(spoilt_bytes((scratch / "village" / "dataset.safetensors").read_bytes(), random))
    dataset = load(folder)
    if dataset.fingerprint != _whole(scratch).fingerprint:
        raise WrongError("other facts were read than were saved")


def _settings_file(random: Random, scratch: Path, folder: Path) -> None:
    (folder / "preset.toml").write_bytes(spoilt(_toml(), random, "preset.toml"))
    commented_toml(load_settings(folder / "preset.toml"))


def _overrides(random: Random, scratch: Path, folder: Path) -> None:
    name = random.choice([*dotted_names(), "", "a", "walk", "walk.hops.more", "\u202e"])
    load_settings("default", overrides=[f"{name}={random.choice(TOML_VALUES)}"])


def _space(random: Random, scratch: Path, folder: Path) -> None:
    (folder / "space.toml").write_bytes(spoilt(SPACE, random, "space.toml"))
    load_space(folder / "space.toml", random.choice(("propagation", "walker")), Settings())


def _labelled(random: Random, scratch: Path, folder: Path) -> None:
    (folder / "labelled.tsv").write_bytes(spoilt_bytes(LABELLED, random))
    read_task(folder / "labelled.tsv", _whole(scratch))


def _new_facts(random: Random, scratch: Path, folder: Path) -> None:
    (folder / "new.tsv").write_bytes(spoilt_bytes(NEW_FACTS, random))
    rows, _ = read_facts(folder / "new.tsv")
    _reasoner(scratch).with_facts(rows).ask("child 0", "uncle")


def _result_file(random: Random, scratch: Path, folder: Path) -> None:
    results = Path(__file__).parents[2] / "results"
    file = random.choice(sorted((results / "scorers").glob("*.json")))
    (folder / "scorers").mkdir()
    (folder / "scorers" / file.name).write_bytes(spoilt(file.read_bytes(), random, file.name))
    for result in Ledger(folder).results:
        str(result.name)


def _progress(random: Random, scratch: Path, folder: Path) -> None:
    """The record and the table of a completion that was stopped, or of one that is complete; one of them spoilt."""
    made, names = _stopped_completion(scratch), [".progress.json", ".part"]
    if random.random() < 0.3:
        made, names = _whole_completion(scratch), [".progress.json", ""]
    spoilt_name = names[random.random() < 0.3]
    for name in names:
        content = made[name] if name != spoilt_name else spoilt(made[name], random, name)
        (folder / f"new.tsv{name}").write_bytes(content)
    _reasoner(scratch).complete(folder / "new.tsv", above=ABOVE, resume=True)
    if (folder / "new.tsv").read_bytes() != _whole_completion(scratch)[""]:
        raise WrongError("another table than without the damage")


@cache
def _whole_completion(scratch: Path) -> dict[str, bytes]:
    target = _empty(scratch / "completion") / "new.tsv"
    _reasoner(scratch).complete(target, above=ABOVE)
    return {name: target.with_name(f"new.tsv{name}").read_bytes() for name in ("", ".progress.json")}


@cache
def _stopped_completion(scratch: Path) -> dict[str, bytes]:
    target = _empty(scratch / "stopped-completion") / "new.tsv"

    def stop(done: int, total: int, facts: int, stage: str) -> None:
        if facts > 100:
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        _reasoner(scratch).complete(target, above=ABOVE, on_progress=stop)
    return {name: target.with_name(f"new.tsv{name}").read_bytes() for name in (".part", ".progress.json")}


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _command(random: Random, scratch: Path, folder: Path) -> None:
    """A command line with something strange in it."""
    run, strange = str(scratch / "bases" / "walker"), spoilt_bytes(b"child 0", random).decode("utf-8", "surrogateescape")
    (folder / "queries.tsv").write_bytes(spoilt_bytes(QUERIES, random))
    lines = [
        ["ask", run, "--from", str(folder / "queries.tsv"), *random.choice(([], ["--json"]))],
        ["ask", run, strange, "uncle", "--json"],
        ["ask", run, "child 0", strange],
        ["explain", run, "child 0", "uncle", strange],
        ["rules", run, strange],
        ["evaluate", strange],
        ["data", "check", strange],
        ["settings", "--set", strange],
        ["ask", run, "child 0", "uncle", "-k", strange],
        [strange],
    ]
    code, printed = _run([part.replace("\x00", "") for part in random.choice(lines)])
    if code not in (0, 1, 2) or "Traceback" in printed or len(printed) > 200_000:
        raise WrongError(f"exit code {code}: {printed[-3000:]}")


def _run(arguments: list[str]) -> tuple[object, str]:
    printed = io.StringIO()
    before, sys.argv = sys.argv, ["hopwalk", *arguments]
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            main.run()
        code: object = 0
    except SystemExit as ended:
        code = ended.code or 0
    finally:
        sys.argv = before
    return code, printed.getvalue()


@cache
def _toml() -> bytes:
    return commented_toml(load_settings("default")).encode()


@cache
def _whole(scratch: Path) -> api.Dataset:
    return load(scratch / "village")


@cache
def _reasoner(scratch: Path) -> Reasoner:
    return api.load(scratch / "bases" / "propagation")


# Each reader with how often its turn comes: those in a process of their own take longer.
READERS: dict[str, tuple[Callable[[Random, Path, Path], None], float]] = {
    **{name: (_facts(files), 2.0) for name, files in FACTS.items()},
    "facts.parquet": (_facts(PARQUET), 0.1),
    "prepared data": (_prepared, 3.0),
    "settings file": (_settings_file, 1.0),
    "overrides": (_overrides, 1.0),
    "search space": (_space, 2.0),
    "labelled facts": (_labelled, 2.0),
    "facts to add": (_new_facts, 1.0),
    "result file": (_result_file, 2.0),
    "progress of completing": (_progress, 0.5),
    "command": (_command, 0.5),
}

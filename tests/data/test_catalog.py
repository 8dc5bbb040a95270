"""The catalog: names, counts as in the paper, and downloads that go wrong."""

import gc
import hashlib
import http.server
import multiprocessing
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import hopwalk
from hopwalk.data import catalog, download
from hopwalk.data.download import RemoteFile
from hopwalk.data.statistics import statistics
from hopwalk.errors import DownloadError, UnknownNameError

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
    assert statistics(nell).num_relations_asked == 12
    walked, known = set(nell.labels_of(nell.facts)), nell.labels_of(nell.train)
    assert walked.issuperset(known)
    assert walked.isdisjoint(nell.labels_of(nell.valid) + nell.labels_of(nell.test) + nell.labels_of(nell.held_back))
    final = nell.with_valid_as_facts()
    assert len(final.facts) == 149678 + 543
    unseen = [found.message for found in hopwalk.check(nell).findings if found.code == "unseen-entities"]
    assert len(unseen) == 1  # in valid; no test question has an entity that the graph does not know
    assert "of valid" in unseen[0]


def test_bundled_sets_are_those_of_pykeen():
    import pykeen.datasets

    folder = Path(pykeen.datasets.__file__).parent
    ours = Path(catalog.__file__).parent / "bundled"
    for name, theirs in (("umls", "umls"), ("kinship", "kinships")):
        for file in ("train.txt", "valid.txt", "test.txt"):
            assert (ours / name / file).read_bytes() == (folder / theirs / file).read_bytes()


@pytest.mark.parametrize(
    ("name", "meant"),
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
def test_names_fold(name: str, meant: str):
    assert catalog.get(name).name == meant


def test_unknown_name(in_folder: Path):
    with pytest.raises(UnknownNameError, match="Did you mean 'kinship'"):
        catalog.get("kinshp")
    with pytest.raises(UnknownNameError, match="The catalog has: umls, kinship"):
        catalog.get("zzzzzz")
    with pytest.raises(UnknownNameError, match=r"neither a data set nor a file 'facts\.tvs'. Did you mean 'facts\.tsv'"):
        (in_folder / "facts.tsv").touch()
        hopwalk.load_dataset("facts.tvs")


def test_every_entry_says_where_it_comes_from():
    for entry in catalog.entries().values():
        assert entry.source
        assert entry.citation
        assert entry.licence
        assert entry.bundled != bool(entry.files)


CONTENT = b"facts " * 50_000
GOOD = hashlib.sha256(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves /good and /bad, breaks off in the middle of /cut, and has nothing else."""

    num_requests = 0

    def do_GET(self) -> None:
        type(self).num_requests += 1
        body = {"/good.bin": CONTENT, "/bad.bin": CONTENT[:-1] + b"!", "/cut.bin": CONTENT[:1000]}.get(self.path)
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(CONTENT) if body else 0))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a local server; nothing is in the cache, and there is no mirror."""
    monkeypatch.setenv("HOPWALK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HOPWALK_MIRROR", raising=False)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        Handler.num_requests = 0
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()
    gc.collect()  # the HTTP library leaves broken connections to the collector: let that happen here, not in another test


def cached_files() -> list[Path]:
    return [path for path in download.cache_folder().rglob("*") if path.is_file()]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
class TestDownload:
    def test_fetched_once_and_kept(self, server: str):
        file = RemoteFile(f"{server}/good.bin", GOOD, len(CONTENT))
        assert download.fetch(file).read_bytes() == CONTENT
        assert download.fetch(file) == download.cached_path(file)
        assert Handler.num_requests == 1

    @pytest.mark.parametrize(("path", "message"), [("bad", "wrong SHA-256"), ("cut", ""), ("missing", "the server answered 404")])
    def test_what_is_not_whole_is_not_kept(self, server: str, path: str, message: str):
        with pytest.raises(DownloadError) as error:
            download.fetch(RemoteFile(f"{server}/{path}.bin", GOOD, len(CONTENT)))
        assert message in str(error.value)
        assert error.value.remedy
        assert cached_files() == []

    def test_no_network(self, server: str):
        with pytest.raises(DownloadError, match=r"no connection.*--mirror DIR"):
            download.fetch(RemoteFile("http://127.0.0.1:9/x.bin", GOOD, 1))

    def test_a_damaged_cache_mends_itself(self, server: str):
        file = RemoteFile(f"{server}/good.bin", GOOD, len(CONTENT))
        download.cached_path(file).parent.mkdir(parents=True)
        download.cached_path(file).write_bytes(CONTENT[:100])
        assert download.fetch(file).read_bytes() == CONTENT

    def test_a_cache_that_is_only_to_be_read(self, server: str, monkeypatch: pytest.MonkeyPatch):
        file = RemoteFile(f"{server}/good.bin", GOOD, len(CONTENT))
        assert download.fetch(file).stat().st_mode & 0o777 == 0o644

        def refuse(*_: object) -> None:
            raise PermissionError("read-only")

        monkeypatch.setattr(Path, "chmod", refuse)
        assert download.fetch(file).read_bytes() == CONTENT

    def test_many_processes_at_once(self, server: str):
        file = RemoteFile(f"{server}/good.bin", GOOD, len(CONTENT))
        with multiprocessing.get_context("spawn").Pool(4) as pool:
            paths = pool.map(download.fetch, [file] * 8)
        assert {path.read_bytes() for path in paths} == {CONTENT}
        assert cached_files() == [download.cached_path(file)]

    def test_cache_that_cannot_be_written(self, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        (tmp_path / "file").touch()
        monkeypatch.setenv("HOPWALK_CACHE", str(tmp_path / "file"))
        with pytest.raises(DownloadError, match="HOPWALK_CACHE"):
            download.fetch(RemoteFile(f"{server}/good.bin", GOOD, len(CONTENT)))

    def test_mirror(self, server: str, tmp_path: Path):
        file = RemoteFile("https://example.org/some/folder/good.bin", GOOD, len(CONTENT))
        kept = tmp_path / "mirror" / "example.org" / "some" / "folder" / "good.bin"
        with pytest.raises(DownloadError, match="the mirror has no file"):
            download.fetch(file, mirror=tmp_path / "mirror")
        kept.parent.mkdir(parents=True)
        kept.write_bytes(b"other")
        with pytest.raises(DownloadError, match="wrong SHA-256"):
            download.fetch(file, mirror=tmp_path / "mirror")
        kept.write_bytes(CONTENT)
        assert download.fetch(file, mirror=tmp_path / "mirror").read_bytes() == CONTENT
        assert Handler.num_requests == 0

    def test_progress(self, server: str):
        class Bar:
            total = 0
            done = 0
            closed = False

            def update(self, n: int) -> None:
                self.done += n

            def reset(self) -> None:
                self.done = 0

            def close(self) -> None:
                self.closed = True

        bar = Bar()
        download.fetch(RemoteFile(f"{server}/good.bin", GOOD, len(CONTENT)), make_progress_bar=lambda name: bar)
        assert bar.total == len(CONTENT)
        assert bar.closed

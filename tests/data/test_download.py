"""Downloads: verified, kept in a cache, from the web or a mirror, and their errors."""

import gc
import hashlib
import http.server
import multiprocessing
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hopwalk.data import download
from hopwalk.data.download import RemoteFile
from hopwalk.errors import DownloadError

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
    def test_an_incomplete_download_is_not_kept(self, server: str, path: str, message: str):
        with pytest.raises(DownloadError) as error:
            download.fetch(RemoteFile(f"{server}/{path}.bin", GOOD, len(CONTENT)))
        assert message in str(error.value)
        assert error.value.remedy
        assert cached_files() == []

    def test_no_network(self, server: str):
        with pytest.raises(DownloadError, match=r"no connection.*give a mirror folder that has the files"):
            download.fetch(RemoteFile("http://127.0.0.1:9/x.bin", GOOD, 1))

    def test_a_damaged_file_in_the_cache_is_replaced(self, server: str):
        file = RemoteFile(f"{server}/good.bin", GOOD, len(CONTENT))
        download.cached_path(file).parent.mkdir(parents=True)
        download.cached_path(file).write_bytes(CONTENT[:100])
        assert download.fetch(file).read_bytes() == CONTENT

    def test_a_read_only_cache(self, server: str, monkeypatch: pytest.MonkeyPatch):
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

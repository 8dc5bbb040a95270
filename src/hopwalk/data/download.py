"""Downloads of the catalog's files: from the web or a local mirror, verified by SHA-256, kept in a cache."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from hopwalk.errors import DownloadError
from hopwalk.utils.quiet import quiet

if TYPE_CHECKING:  # pooch and requests are imported when something is fetched: answering a query needs neither
    import requests

TIMEOUT_SECONDS = 30


class ProgressBar(Protocol):
    """The interface of pooch's progress bars."""

    total: int

    def update(self, n: int) -> None:
        """Count `n` more bytes."""

    def reset(self) -> None:
        """Start again at 0."""

    def close(self) -> None:
        """End the bar: the download is over."""


MakeProgressBar = Callable[[str], ProgressBar]


@dataclass(frozen=True)
class RemoteFile:
    """A file on the web with its checksum and size."""

    url: str
    sha256: str
    bytes: int

    @property
    def mirror_path(self) -> Path:
        """The path of the file in a mirror: its address without the scheme."""
        address = urlsplit(self.url)
        return Path(address.netloc) / address.path.lstrip("/")


def cache_folder() -> Path:
    """The folder of downloads: `HOPWALK_CACHE`, or the system's cache folder."""
    if os.environ.get("HOPWALK_CACHE"):
        return Path(os.environ["HOPWALK_CACHE"])
    import pooch

    return Path(pooch.os_cache("hopwalk"))


def cached_path(file: RemoteFile) -> Path:
    """The path of the file in the cache, whether it is there or not."""
    return cache_folder() / file.mirror_path


def fetch(file: RemoteFile, *, mirror: Path | None = None, make_progress_bar: MakeProgressBar | None = None) -> Path:
    """The path of a verified copy of the file in the cache; it is fetched if it is not there.

    A file enters the cache only when it is complete and its checksum is right. So an interrupted download leaves nothing behind,
    and processes that fetch at the same time end with the same file.
    """
    import pooch
    import requests

    target = cached_path(file)
    mirror = mirror or (Path(os.environ["HOPWALK_MIRROR"]) if os.environ.get("HOPWALK_MIRROR") else None)
    bar = None if mirror or not make_progress_bar else make_progress_bar(target.name)
    download = _copy_from(mirror) if mirror else pooch.HTTPDownloader(progressbar=bar or False, timeout=TIMEOUT_SECONDS)

    def download_readable(url: str, output_file: str, its_pooch: Any) -> None:
        download(url, output_file, its_pooch)
        Path(output_file).chmod(0o644)  # only their owner can read pooch's temporary files

    try:
        with quiet(pooch.get_logger()):
            known_hash = f"sha256:{file.sha256}"
            pooch.retrieve(file.url, known_hash, fname=target.name, path=target.parent, downloader=download_readable)
        return target
    except requests.RequestException as error:
        reason = f"{file.url} could not be downloaded ({_reason(error)})"
        remedy = "Check the connection and try again, or give a mirror folder that has the files."
        raise DownloadError(reason, remedy=remedy) from None
    except ValueError:
        origin = f"the mirror {mirror}" if mirror else file.url
        remedy = "Nothing was kept. Try again; if the error persists, the file has changed at its source."
        raise DownloadError(f"the file from {origin} is not the expected one (wrong SHA-256)", remedy=remedy) from None
    except OSError as error:
        remedy = "Check free space and permissions, or set HOPWALK_CACHE to a writable folder."
        raise DownloadError(f"the file cannot be saved in {target.parent} ({error})", remedy=remedy) from None
    finally:
        if bar:
            bar.close()  # pooch closes it only after a complete download


def _copy_from(mirror: Path) -> Callable[[str, str, Any], None]:
    def copy(url: str, output_file: str, _pooch: Any) -> None:
        source = mirror / RemoteFile(url, "", 0).mirror_path
        if not source.is_file():
            remedy = (
                "In a mirror, the path of a file is its address without https://. Without a mirror folder, files are downloaded."
            )
            raise DownloadError(f"the mirror has no file {source}", remedy=remedy)
        shutil.copyfile(source, output_file)

    return copy


def _reason(error: requests.RequestException) -> str:
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server answered {error.response.status_code}"
    if isinstance(error, requests.Timeout):
        return f"no response within {TIMEOUT_SECONDS} seconds"
    return "no connection" if isinstance(error, requests.ConnectionError) else type(error).__name__

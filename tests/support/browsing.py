"""Debian's chromium, driven by Playwright: where it is, and how it is started."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

CHROMIUM = os.environ.get("HOPWALK_CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def require_chromium() -> None:
    """Skip what needs a browser where there is none; where HOPWALK_BROWSER is `required`, as in CI, fail."""
    if Path(CHROMIUM).exists():
        return
    told = f"there is no {CHROMIUM}: install it with apt-get install chromium"
    if os.environ.get("HOPWALK_BROWSER") == "required":
        pytest.fail(told)
    pytest.skip(told)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()

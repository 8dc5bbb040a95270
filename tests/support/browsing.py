"""Debian's chromium, driven by Playwright: where it is, and how it is started."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

CHROMIUM = os.environ.get("HOPWALK_CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
AXE = Path(__file__).parents[2] / ".node" / "node_modules" / "axe-core" / "axe.min.js"
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
    if not Path(CHROMIUM).exists():
        _missing(f"there is no {CHROMIUM}: install it with apt-get install chromium")


def require_axe() -> str:
    """The source of axe-core, which `make test` installs; without it the same as without a browser."""
    if not AXE.is_file():
        _missing("there is no axe-core: `make browser` installs it with npm")
    return AXE.read_text(encoding="utf-8")


def _missing(told: str) -> None:
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

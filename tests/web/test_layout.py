"""The page at three sizes, in light and dark: everything fits, axe-core finds nothing, and it looks as it did.

`pictures/` has the page as a thumbnail in grey. After an intended change, make them again with HOPWALK_RENEW_PICTURES=1 and look.
"""

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, Route, expect

from tests.support.browsing import chromium, require_axe, require_chromium
from tests.support.serving import Client

PICTURES = Path(__file__).parent / "pictures"
SIZES = {1920: 1080, 1440: 900, 390: 844}
VIEWS = {"welcome": "", "answers": "?head=child+0&relation=uncle", "entity": "?entity=child+0"}
READY = {"welcome": ".sample .picture svg", "answers": ".reason .picture svg", "entity": ".predictions li, .predictions .none"}
THUMBNAIL = (32, 24)
LEAST_LIKENESS = 0.7  # of where there is something: other fonts and a name take away little, a missing part much
STRONGEST = 30.0  # a mark in shades of 256: a coloured button counts as much as text
MOST_DIFFERENCE = 25.0  # of the ground, in shades of 256
NAMES = ["amino_acid,_peptide,_or_protein", "organ or tissue function", "cell", "biomedical occupation or discipline", "steroid"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    require_chromium()
    with chromium() as made:
        yield made


def opened(browser: Browser, client: Client, view: str, width: int, scheme: str = "light") -> Page:
    page = browser.new_page(viewport={"width": width, "height": SIZES[width]}, color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
    page.set_default_timeout(20_000)
    page.goto(client.address + VIEWS[view])
    page.locator(READY[view]).first.wait_for()
    page.wait_for_load_state("networkidle")
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("view", VIEWS)
def test_it_fits_bars_nobody_and_looks_as_it_did(browser: Browser, client: Client, view: str, width: int, scheme: str):
    page = opened(browser, client, view, width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    drawings = page.locator(".picture svg").all()
    assert drawings or view == "entity"
    for drawn in drawings:
        box = drawn.bounding_box()
        assert box and box["x"] >= 0 and box["x"] + box["width"] <= width
    assert looks_like(thumbnail(page), stored(f"{view}-{width}-{scheme}", thumbnail(page)))
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing(browser: Browser, client: Client, view: str, scheme: str):
    source = require_axe()
    for width in (1440, 390):
        page = opened(browser, client, view, width, scheme)
        page.evaluate(source)
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        assert [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found] == []
        page.close()


def five_hops(hops: int) -> dict[str, Any]:
    def path(start: int, share: float) -> dict[str, Any]:
        edges = [
            {
                "relation": "interacts_with",
                "entity": NAMES[(start + hop) % 5] if hop < hops - 1 else "the answer",
                "is_inverse": hop % 2 == 1,
            }
            for hop in range(hops)
        ]
        measures = {"rule": f"r{start}", "support": 1, "predictions": 2, "confidence": 0.5, "is_sampled": False, "share": share}
        return measures | {"paths": [{"text": "", "share": share, "edges": [edge | {"key": edge["entity"]} for edge in edges]}]}

    about = {"run": "village", "head": "child 0", "relation": "uncle", "tail": "the answer", "is_known": False}
    reasons = [path(start, 1 / (start + 1)) for start in range(5)]
    return about | {"rank": 1, "probability": 0.5, "why_not": "", "missing_fact": None, "reasons": reasons}


@pytest.mark.parametrize("hops", [3, 5])
@pytest.mark.parametrize("width", SIZES)
def test_the_answer_of_a_long_path_is_in_sight(browser: Browser, client: Client, width: int, hops: int):
    page = browser.new_page(viewport={"width": width, "height": SIZES[width]})

    def explained(route: Route) -> None:
        route.fulfill(body=json.dumps(five_hops(hops)), content_type="application/json")

    page.route("**/api/v1/explain", explained)
    page.goto(client.address + VIEWS["answers"])
    drawn = page.locator(".reason .picture svg")
    expect(drawn).to_be_visible()
    answer, frame = drawn.locator(".hopwalk-answer rect").bounding_box(), page.locator(".reason").bounding_box()
    assert answer and frame and frame["x"] <= answer["x"] and answer["x"] + answer["width"] <= frame["x"] + frame["width"]
    expect(drawn.locator(".hopwalk-answer text")).to_contain_text("the answer")
    inside = page.evaluate("document.querySelector('.reason .picture text').getBoundingClientRect().height")
    around = page.evaluate("parseFloat(getComputedStyle(document.querySelector('.verdict')).fontSize)")
    assert page.evaluate("document.querySelector('.reason .picture svg').getScreenCTM().a") == pytest.approx(1, abs=0.02)
    assert around == 16 and inside >= 16  # text of 16 pixels, not scaled
    assert width > 390 or drawn.evaluate("part => part.classList.contains('hopwalk-vertical')")
    for box in page.locator(".reason .picture rect").all():
        placed = box.bounding_box()
        assert placed and placed["x"] >= frame["x"] and placed["x"] + placed["width"] <= frame["x"] + frame["width"]
    page.close()


def test_a_drawing_follows_the_width(browser: Browser, client: Client):
    page = opened(browser, client, "answers", 1440)
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.locator(".reason .picture svg.hopwalk-vertical")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()


# Looks


def thumbnail(page: Page) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The page as a small picture in grey [24, 32]."""
    page.evaluate("document.activeElement.blur()")
    with Image.open(io.BytesIO(page.screenshot(animations="disabled", caret="hide"))) as taken:
        return np.asarray(taken.convert("L").resize(THUMBNAIL, Image.Resampling.BOX), dtype=np.float64)


def stored(name: str, seen: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The stored picture; with HOPWALK_RENEW_PICTURES the one that is seen, stored now."""
    path = PICTURES / f"{name}.png"
    if os.environ.get("HOPWALK_RENEW_PICTURES"):
        PICTURES.mkdir(exist_ok=True)
        Image.fromarray(seen.astype(np.uint8)).save(path, optimize=True)
    with Image.open(path) as picture:
        return np.asarray(picture, dtype=np.float64)


def looks_like(one: np.ndarray[Any, np.dtype[np.float64]], other: np.ndarray[Any, np.dtype[np.float64]]) -> bool:
    """Whether two thumbnails have the same ground, and marks on it at the same places."""
    grounds = np.median(one), np.median(other)
    marks = [np.minimum(np.abs(seen - ground), STRONGEST).ravel() for seen, ground in zip((one, other), grounds, strict=True)]
    likeness = np.corrcoef(*marks)[0, 1] if min(part.std() for part in marks) > 0 else 0.0
    return bool(abs(grounds[0] - grounds[1]) <= MOST_DIFFERENCE and likeness >= LEAST_LIKENESS)


@pytest.mark.parametrize(
    "damage",
    [
        "document.documentElement.dataset.theme = 'dark'",
        "document.querySelectorAll('link[rel=stylesheet]').forEach(part => part.remove())",
        "document.querySelector('#question').remove()",
        "document.querySelector('.result').prepend(document.querySelector('#reason'))",
    ],
)
def test_a_damaged_page_is_noticed(browser: Browser, client: Client, damage: str):
    page = opened(browser, client, "answers", 1440)
    kept = stored("answers-1440-light", thumbnail(page))
    assert looks_like(thumbnail(page), kept)
    page.evaluate(damage)
    assert not looks_like(thumbnail(page), kept)
    page.close()

"""The page in a real browser: typing, choosing, clicking, links, the keyboard, and hostile labels."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import pytest
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from hopwalk.reasoning.rule_groups import share_text
from hopwalk.web import app
from hopwalk.web.runs import RunView, load_runs
from tests.support.browsing import chromium, require_chromium
from tests.support.serving import IMAGE, LONG, OVERRIDE, QUOTES, SCRIPT, Client, serving

OpenPage = Callable[..., Page]
VIEW = "?head=child+0&relation=uncle"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    require_chromium()
    with chromium() as made:
        yield made


@pytest.fixture
def messages() -> list[str]:
    """Console messages and errors of the pages."""
    return []


@pytest.fixture
def open_page(browser: Browser, client: Client, messages: list[str]) -> Iterator[OpenPage]:
    """Opens pages; in the end, none may have failed, broken its policy, or loaded anything from another host."""
    contexts: list[BrowserContext] = []
    requested: list[str] = []

    def open_(path: str = "", *, address: str = client.address, **options: Any) -> Page:
        context = browser.new_context(**({"viewport": {"width": 1200, "height": 900}} | options))
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("console", lambda message: messages.append(message.text) if "Failed to load" not in message.text else None)
        page.on("request", lambda request: requested.append(request.url))
        page.goto(address + path)
        return page

    expect.set_options(timeout=20_000)
    yield open_
    for context in contexts:
        context.close()
    assert messages == []
    assert all(url.startswith(("http://127.0.0.1:", "data:")) for url in requested)


def best_answer(served_runs: Mapping[str, RunView]) -> Any:
    return served_runs["village"].reasoner.ask("child 0", "uncle", k=10, only_new=True)[0]


def known_uncles(served_runs: Mapping[str, RunView]) -> list[str]:
    return [one.name for one in served_runs["village"].reasoner.facts("child 0", "uncle").neighbours]


def test_type_choose_click_and_read_the_path(open_page: OpenPage, served_runs: Mapping[str, RunView]):
    page = open_page()
    expect(page.locator("#welcome h1")).to_be_visible()
    page.locator("#head").fill("chil")
    page.get_by_role("option", name="child 0", exact=True).click()
    expect(page.locator("#relation")).to_be_focused()
    options = page.locator("#relation-list [role=option]")
    expect(options.first).to_contain_text("fact")  # relations of this child come first
    page.locator("#relation-list [role=option]", has_text="uncle").first.click()
    expect(page.locator("#asked")).to_have_text("child 0 —uncle→ ?")
    expect(page.locator(".predicted li")).to_have_count(10)
    expect(page.locator(".known li .name")).to_have_text(known_uncles(served_runs))

    answer = best_answer(served_runs)
    first = page.locator("#answers button.answer").first
    expect(first.locator(".name")).to_have_text(answer.entity)
    expect(page.locator(".predicted li").first.locator(".path")).to_have_text(str(answer.paths[0]))
    expect(first).to_have_attribute("aria-pressed", "true")  # the first answer is open
    expect(page.locator("#claim")).to_have_text(f"child 0 —uncle→ {answer.entity}")
    expect(page.locator(".reasons .rule").first).to_contain_text("X —uncle→ Y if X ")
    explained = served_runs["village"].reasoner.explain("child 0", "uncle", answer.key)
    holding = [group for group in explained.reasons if group.evidence.holds] or explained.reasons
    rates = [re.sub(r"[\d.<> ]+%", "#", str(group.evidence)) for group in holding]  # of which the page rounds in its own way
    shown = page.locator(".confidence .counted").all_inner_texts()
    assert [re.sub(r"[\d.<>\s]+%", "#", text).replace("\u00a0", " ") for text in shown] == rates
    paths = [f"{share_text(path.share)} {path}" for group in holding for path in group.paths]
    assert [text.replace("\u00a0", " ") for text in page.locator(".reasons .path").all_inner_texts()] == paths
    drawn = page.locator(".reason .picture svg")
    expect(drawn).to_be_visible()
    expect(drawn).to_contain_text("child 0")
    expect(drawn).to_contain_text(answer.entity)
    expect(page.locator("#overview .picture svg .hopwalk-answer")).not_to_have_count(0)


def test_the_link_shows_the_same_view_and_back_goes_back(open_page: OpenPage):
    page = open_page(VIEW)
    expect(page.locator("#claim")).to_be_visible()
    first = page.locator("#claim").inner_text()
    page.locator("#answers button.answer").nth(2).click()
    expect(page.locator("#claim")).not_to_have_text(first)
    claim, link = page.locator("#claim").inner_text(), page.url
    assert "answer=" in link

    other = open_page(link.partition("/?")[2].join(["?", ""]))
    expect(other.locator("#claim")).to_have_text(claim)
    expect(other.locator("#answers button.answer").nth(2)).to_have_attribute("aria-pressed", "true")
    expect(other.locator("#head")).to_have_value("child 0")

    page.go_back()
    expect(page.locator("#claim")).to_have_text(first)
    page.go_forward()
    expect(page.locator("#claim")).to_have_text(claim)


def test_entities_are_links_to_their_pages(open_page: OpenPage, served_runs: Mapping[str, RunView]):
    page = open_page(VIEW)
    answer = best_answer(served_runs)
    page.locator(".reason .picture svg a", has_text=answer.entity).first.click()
    expect(page.locator("#entity h1")).to_have_text(answer.entity)
    assert "entity=" in page.url
    profile = served_runs["village"].reasoner.profile(answer.key)
    expect(page.locator(".facts .group")).to_have_count(len(profile.relations))
    expect(page.locator(".facts .group").first.locator(".neighbours li")).to_have_count(len(profile.relations[0].neighbours))
    expect(page.locator(".similar li a")).to_have_text([one.name for one in profile.similar])
    expect(page.locator(".predictions li, .predictions .none").first).not_to_have_text("Searching…")
    page.locator(".similar a").first.click()
    expect(page.locator("#entity h1")).to_have_text(profile.similar[0].name)
    page.go_back()
    expect(page.locator("#entity h1")).to_have_text(answer.entity)
    page.go_back()
    expect(page.locator("#asked")).to_have_text("child 0 —uncle→ ?")
    page.locator(".predicted li .path a").first.click()
    expect(page.locator("#entity h1")).to_have_text("child 0")


def test_views_can_be_downloaded(open_page: OpenPage, served_runs: Mapping[str, RunView]):
    page = open_page(VIEW)
    expect(page.locator(".reason .picture svg")).to_be_visible()
    content = {}
    for kind in ("CSV", "JSON", "SVG", "PNG"):
        with page.expect_download() as waiting:
            page.locator("#downloads button", has_text=kind).click()
        assert waiting.value.suggested_filename == f"child-0-uncle.{kind.lower()}"
        content[kind] = Path(waiting.value.path()).read_bytes()
    answers = served_runs["village"].reasoner.ask("child 0", "uncle", k=10, num_paths=1, only_new=True)
    answer = answers[0]
    rows = list(csv.DictReader(io.StringIO(content["CSV"].decode())))
    assert (rows[0]["key"], rows[0]["path"]) == (answer.key, str(answer.paths[0]))
    assert [row["entity"] for row in rows if row["is_known"] == "true"] == known_uncles(served_runs)
    assert json.loads(content["JSON"])["answers"][0] == answers.answer_dict(answer)
    drawn = ElementTree.fromstring(content["SVG"])
    assert drawn.tag.endswith("svg") and b"<a " not in content["SVG"]
    with Image.open(io.BytesIO(content["PNG"])) as picture:
        assert picture.size == (2 * int(drawn.get("width", "")), 2 * int(drawn.get("height", "")))
        assert len({*picture.convert("L").resize((60, 40)).tobytes()}) > 10  # it is not empty


def test_the_first_view_has_examples_that_work(open_page: OpenPage):
    page = open_page()
    expect(page.locator(".counts dd")).to_have_count(3)
    expect(page.locator(".sample .picture svg")).to_be_visible()
    examples = page.locator(".examples a")
    expect(examples).to_have_count(3)
    for place in range(3):
        examples.nth(place).click()
        expect(page.locator("#claim")).to_be_visible()
        assert page.locator("#answers button.answer").count() > 0
        page.go_back()
        expect(page.locator(".sample")).to_be_visible()


def test_by_keyboard_alone(open_page: OpenPage):
    page = open_page()
    expect(page.locator("#head")).to_be_focused()
    page.keyboard.type("child 1")
    expect(page.locator("#head")).to_have_attribute("aria-expanded", "true")
    expect(page.locator("#head-list [aria-selected=true]")).to_have_text("child 1")
    page.keyboard.press("ArrowUp")  # to the last one, and on to the first
    page.keyboard.press("ArrowDown")
    expect(page.locator("#head")).to_have_attribute("aria-activedescendant", "head-list-0")
    page.keyboard.press("Enter")
    expect(page.locator("#relation")).to_be_focused()
    expect(page.locator("#relation-list")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#relation-list")).to_be_hidden()
    page.keyboard.type("unc")
    expect(page.locator("#relation-list [aria-selected=true]")).to_have_text(
        "—uncle→" + page.locator("#relation-list [aria-selected=true] .detail").inner_text()
    )
    page.keyboard.press("Enter")
    expect(page.locator("#asked")).to_have_text("child 1 —uncle→ ?")

    expect(page.locator("#claim")).to_be_visible()
    first = page.locator("#claim").inner_text()
    for _ in range(4):  # ask, first answer, and perhaps one more
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "answer":
            break
    expect(page.locator("#answers button.answer").first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#answers button.answer").nth(1)).to_be_focused()
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    expect(page.locator("#claim")).not_to_have_text(first)
    page.keyboard.press("Tab")  # the link to its page
    page.keyboard.press("Enter")
    expect(page.locator("#entity h1")).to_be_visible()


def test_why_not_for_a_name_typed_in(open_page: OpenPage):
    page = open_page("?run=hostile&head=plain&relation=meets")
    page.locator("#other").fill("isl")
    page.get_by_role("option", name="island").click()
    expect(page.locator(".why-not")).to_have_text("Why not? No path of at most 3 hops leads there.")
    page.locator("#other").fill("nobody at all")
    page.locator("#why button").click()
    expect(page.locator("#problem")).to_contain_text("There is no entity 'nobody at all'")


def test_a_fact_that_would_change_the_rank_is_named(open_page: OpenPage, propagation_run: Path):
    """In a sentence with links to both of its ends."""
    runs = load_runs([propagation_run])
    (reasoner,) = (run.reasoner for run in runs.values())
    men = (reasoner.explain("child 0", "uncle", f"man {number}") for number in range(16))
    explained = next(found for found in men if found.missing_fact is not None)
    missing = explained.missing_fact
    assert missing is not None
    with serving(runs) as served:
        page = open_page(f"{VIEW}&answer={quote(explained.tail)}", address=served.address)
        shown = page.locator(".why-not")
        expect(shown).to_contain_text("With the fact")
        text = f"{missing.head} —{missing.relation}→ {missing.tail} it would have rank {missing.rank}."
        assert text in shown.inner_text().replace("\u00a0", " ")
        shown.get_by_role("link", name=missing.tail, exact=True).last.click()
        expect(page.locator("#entity h1")).to_have_text(missing.tail)


def test_mistyped_names_are_suggested(open_page: OpenPage):
    page = open_page("?head=childd+3&relation=uncle")
    expect(page.locator("#problem")).to_contain_text("There is no entity 'childd 3'")
    page.locator(".suggestion", has_text="child 3").first.click()
    expect(page.locator("#asked")).to_have_text("child 3 —uncle→ ?")
    expect(page.locator("#problem")).to_be_hidden()


def test_examples_and_other_runs(open_page: OpenPage):
    page = open_page()
    page.locator("#run").select_option("hostile")
    expect(page.locator(".counts dd")).to_have_text(["8", "2", "8"])
    assert "run=hostile" in page.url
    page.locator(".examples a").first.click()
    expect(page.locator("#answers li").first).to_be_visible()
    page.locator(".home").click()
    expect(page.locator("#welcome")).to_be_visible()


@pytest.mark.parametrize("head", [SCRIPT, IMAGE, QUOTES, OVERRIDE, LONG], ids=["script", "image", "quotes", "override", "long"])
def test_labels_are_shown_not_run(open_page: OpenPage, head: str):
    page = open_page(f"?run=hostile&relation=meets&head={quote(head)}")
    expect(page.locator("#asked .label").first).to_have_text(head)
    expect(page.locator("#claim")).to_be_visible()
    shown = page.locator("#answers .answer .name").all_text_contents()
    assert {SCRIPT, IMAGE, QUOTES, OVERRIDE, LONG} - {head} <= {*shown}
    for place in (3, 0):
        page.locator("#answers button.answer").nth(place).click()
        expect(page.locator("#claim .label").last).to_have_text(shown[place])
    assert page.title().endswith("hopwalk")
    assert page.evaluate("document.querySelectorAll('script').length") == 2
    assert page.evaluate("document.querySelectorAll('main img, main script, svg script, svg image').length") == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_what_is_typed_while_the_page_loads_is_kept(open_page: OpenPage, client: Client):
    page, held = open_page(), list[Route]()
    page.route("**/runs", lambda route: held.append(route))
    with page.expect_request("**/runs"):
        page.goto(f"{client.address}?run=village")
    page.locator("#head").fill("child 1")
    while not held:
        page.wait_for_timeout(20)
    held[0].continue_()
    expect(page.locator("#head-list [role=option] .label").first).to_have_text("child 1")
    expect(page.locator("#head")).to_have_value("child 1")


def test_labels_in_suggestions_are_shown_not_run(open_page: OpenPage):
    page = open_page("?run=hostile")
    page.locator("#head").fill("<img")
    expect(page.locator("#head-list [role=option] .label").first).to_have_text(IMAGE)
    page.keyboard.press("Enter")
    expect(page.locator("#relation-list [role=option]").first).to_be_visible()
    assert "</text><script>alert(1)</script>" in page.locator("#relation-list .relation").all_text_contents()
    assert page.title() == "hopwalk"


def test_even_a_hostile_drawing_cannot_run(open_page: OpenPage, messages: list[str], monkeypatch: pytest.MonkeyPatch):
    """The page does not rely on the server's drawing being harmless."""
    svg = "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9' onload='document.title=1'>"
    svg += (
        "<script>document.title=1</script><foreignObject/><a href='javascript:alert(1)'/><circle r='3' style='fill:red'/></svg>"
    )
    monkeypatch.setattr(app, "draw_paths", lambda paths, **_: svg)
    page = open_page(VIEW)
    expect(page.locator(".reason .picture svg circle")).to_have_count(1)
    assert page.evaluate("document.querySelector('.reason .picture svg').innerHTML").count("<") == 2
    assert page.title() == "child 0 · uncle · hopwalk"
    assert messages and all("Content Security Policy" in message for message in messages)  # the policy refuses it too
    messages.clear()


@pytest.mark.parametrize("width", [320, 400])
def test_a_phone(open_page: OpenPage, width: int):
    page = open_page(VIEW, viewport={"width": width, "height": 700}, has_touch=True, is_mobile=True)
    expect(page.locator("#claim")).to_be_visible()
    page.locator("#answers button.answer").nth(1).tap()
    expect(page.locator("#answers li").nth(1).locator("#claim")).to_be_in_viewport()  # below the answer it explains
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    touched = page.locator("input[type=text]:visible, .ask:visible, .answer")
    assert min(touched.evaluate_all("parts => parts.map(part => part.offsetHeight)")) >= 40


def luminance(colour: str) -> float:
    """The relative luminance of `rgb(…)`, as WCAG defines it."""
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").rstrip(")").split(",")]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


CONTRASTS = """() => [...document.querySelectorAll('main *, header *, footer *')].flatMap(part => {
    if (![...part.childNodes].some(child => child.nodeType === 3 && child.data.trim()) || !part.checkVisibility()) return [];
    if (part.closest('svg')) return [];
    let ground = part;
    while (ground && getComputedStyle(ground).backgroundColor === 'rgba(0, 0, 0, 0)') ground = ground.parentElement;
    const drawn = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const rgb = (colour) => {
        drawn.fillStyle = colour;
        drawn.fillRect(0, 0, 1, 1);
        return 'rgb(' + [...drawn.getImageData(0, 0, 1, 1).data].slice(0, 3).join(',') + ')';
    };
    const colours = [getComputedStyle(part).color, getComputedStyle(ground ?? document.body).backgroundColor];
    return [[part.className + ' ' + part.tagName, ...colours.map(rgb)]];
})"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_can_be_read(open_page: OpenPage, scheme: str):
    page = open_page(VIEW, color_scheme=scheme)
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    expect(page.locator("#claim")).to_be_visible()
    found = page.evaluate(CONTRASTS)
    assert len(found) > 40
    for name, text, ground in found:
        dark, light = sorted([luminance(text), luminance(ground)])
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, text, ground)
    dark_ground = luminance(page.evaluate("getComputedStyle(document.body).backgroundColor")) < 0.1
    assert dark_ground == (scheme == "dark")


def test_colours_can_be_chosen_and_are_kept(open_page: OpenPage):
    page = open_page(color_scheme="light")
    page.get_by_role("button", name="Dark colours").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.locator("#theme")).to_have_attribute("aria-pressed", "true")


def test_the_token_is_typed_or_taken_from_the_link(open_page: OpenPage, served_runs: Mapping[str, RunView]):
    with serving(served_runs, token="correct-horse") as guarded:
        page = open_page(VIEW, address=guarded.address)
        expect(page.locator("#token")).to_be_visible()
        page.locator("#token-value").fill("wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#token-value")).to_have_value("")
        expect(page.locator("#token")).to_be_visible()
        page.locator("#token-value").fill("correct-horse")
        page.keyboard.press("Enter")
        expect(page.locator("#answers li").first).to_be_visible()
        page.reload()
        expect(page.locator("#answers li").first).to_be_visible()

        linked = open_page(f"{VIEW}#token=correct-horse", address=guarded.address)
        expect(linked.locator("#answers li").first).to_be_visible()
        assert "correct-horse" not in linked.url


def test_a_server_that_has_stopped(open_page: OpenPage, served_runs: Mapping[str, RunView]):
    with serving(served_runs) as short_lived:
        page = open_page(VIEW, address=short_lived.address)
        expect(page.locator("#answers li").first).to_be_visible()
    page.locator("#answers button.answer").nth(1).click()
    expect(page.locator("#problem")).to_contain_text("The server cannot be reached.")


def test_the_page_of_the_api_lists_every_operation(open_page: OpenPage, client: Client):
    page = open_page("docs")
    paths = client.get("openapi.json").json()["paths"]
    expect(page.locator(".operation")).to_have_count(sum(len(operations) for operations in paths.values()))
    page.locator(".operation summary", has=page.get_by_text("/api/v1/ask", exact=True)).click()
    expect(page.get_by_text("Maximum number of answers.")).to_be_visible()
    expect(page.locator(".operation[open] pre")).to_contain_text(f"curl {client.address}api/v1/ask")
    examples = page.locator(".operation pre").all_text_contents()
    assert f"curl -X DELETE {client.address}api/v1/jobs/%7Bjob%7D" in examples
    assert any('{"queries":[{"head":"HEAD","relation":"RELATION"}]}' in example for example in examples)

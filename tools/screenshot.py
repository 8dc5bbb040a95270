"""The picture of the page in README and docs: a question about UMLS, its answers, and the paths to one of them.

    python -m tools.screenshot runs/umls

Needs Debian's chromium, as the tests of the page do.
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path

from benchmarks.machine import PROJECT
from benchmarks.serving import served
from PIL import Image
from tests.support.browsing import chromium

PICTURE = PROJECT / "docs" / "pictures" / "page.png"
VIEW = "?head=steroid&relation=interacts_with&answer=eicosanoid"
COLOURS = 256  # enough for text and lines; keeps the file small


def main() -> None:
    """Take the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the folder of a run on UMLS")
    parser.add_argument("--view", default=VIEW, help="the query of the page's address")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--out", type=Path, default=PICTURE)
    given = parser.parse_args()
    with served(given.run, None) as address, chromium() as browser:
        page = browser.new_page(
            viewport={"width": 1280, "height": 900}, device_scale_factor=1.5, color_scheme="dark" if given.dark else "light"
        )
        page.goto(address + given.view)
        page.locator(".reason .picture svg").wait_for()
        page.wait_for_load_state("networkidle")
        taken = page.screenshot()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.open(io.BytesIO(taken)).convert("RGB")
    picture = picture.quantize(COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    picture.save(given.out, optimize=True)
    print(f"{given.out}: {given.out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()

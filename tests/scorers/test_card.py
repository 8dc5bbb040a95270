"""The card of a scorer and its reliability diagram."""

from pathlib import Path
from xml.etree import ElementTree

import hopwalk
from hopwalk.learning.run import Run
from hopwalk.scorers.card import reliability_svg


def test_card(tmp_path: Path, members: list[Path]):
    text = (members[1] / "card.md").read_text()
    assert text.startswith("# complex on test\n")
    assert "finished after 4 epochs" in text
    assert f"dev MRR (tails, filtered without test facts) | {100 * Run.open(members[1]).about['valid_mrr']:.2f} |" in text
    run = hopwalk.combine_scorers(members, out=tmp_path / "both")
    first, second = run.about["weights"]
    row = f"members | 1-distmult (weight {first:.2g}), 2-complex (weight {second:.2g}) |"
    assert row in (run.path / "card.md").read_text()


def test_the_reliability_diagram_has_a_dot_per_bin():
    root = ElementTree.fromstring(reliability_svg([(0.05, 0.1, 900), (0.95, 0.7, 100)]))
    circles = root.findall("{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 2
    heights = [float(circle.get("cy", "nan")) for circle in circles]
    assert heights[0] > heights[1]  # a larger share of true candidates is higher
    assert root.find(".//{http://www.w3.org/2000/svg}title") is not None

"""Pages of answers: labels stay text, and the style is the one that the policy allows."""

import re
from base64 import b64encode
from hashlib import sha256

from hopwalk.reasoning.html import whole_page, with_blanks
from hopwalk.reasoning.results import Answers
from hopwalk.reasoning.values import Answer, Edge, ReasoningPath


def test_labels_cannot_break_out_of_a_page():
    evil = "<script>alert(1)</script>\"' \u202e\x00"
    path = ReasoningPath(evil, (Edge(evil, evil),), 0.9)
    answers = Answers([Answer(evil, 1, 0.5, False, 0.5, (path,)), Answer(evil, 2, 0.5, True, None, ())], evil, evil, hops=2)
    for shown in (answers.to_html(), whole_page(evil, [answers.to_html()], evil)):
        assert "<script" not in shown and "\u202e" not in shown and "\x00" not in shown
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown


def test_underscores_are_blanks_unless_names_differ_by_them():
    """In texts and drawings; labels that links are made of stay as they are."""
    path = ReasoningPath("cell_line", (Edge("part_of", "organ_system", key="organ_system"),), 0.9)
    answers = [Answer("organ_system", 1, 0.5, False, 0.5, (path,), key="organ_system")]
    shown = Answers(answers, "cell_line", "part_of", hops=2).to_html()
    texts = re.sub(r"<[^>]*>", " ", shown)
    assert "_" not in texts and "organ system" in texts and "part of" in texts
    kept = Answers(answers, "cell_line", "part_of", hops=2, keeps_underscores=lambda: True)
    assert "organ_system" in re.sub(r"<[^>]*>", " ", kept[:1].to_html())
    assert with_blanks('<a title="a_b">a_b</a>c_d') == '<a title="a_b">a b</a>c d'


def test_the_policy_allows_the_style_of_the_page():
    page = whole_page("a <title>", ["<p>b</p>"], "footer")
    (style,) = re.findall(r"<style>(.*?)</style>", page, flags=re.DOTALL)
    assert f"'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'" in page
    assert "<title>a &lt;title&gt;</title>" in page

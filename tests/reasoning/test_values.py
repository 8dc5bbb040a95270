"""Paths and answers as plain values: one-line texts, and JSON."""

import json
from pathlib import Path

from hopwalk import api
from hopwalk.reasoning.values import Answer, Edge, ReasoningPath


def test_paths_in_one_line():
    path = ReasoningPath("steroid", (Edge("affects", "cell"), Edge("affects", "eicosanoid", is_inverse=True)), 0.9)
    assert str(path) == "steroid —affects→ cell ←affects— eicosanoid"
    assert str(Answer("eicosanoid", 1, 0.5, False, None, (path,))) == f"1. eicosanoid (predicted): {path}"


def test_answers_as_json(uncles_run: Path):
    answer = api.load(uncles_run).ask("child 0", "uncle", k=1)[0].to_dict()
    assert json.loads(json.dumps(answer)) == answer
    assert [*answer] == ["entity", "key", "rank", "score", "is_known", "kind", "probability", "paths"]
    assert 0 < answer["paths"][0]["share"] <= 1 and answer["paths"][0]["edges"]

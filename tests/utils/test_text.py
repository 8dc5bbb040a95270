"""Text for machines."""

import json

import pytest

from hopwalk.utils.text import json_text
from tests.support.serving import OVERRIDE, Client


@pytest.mark.parametrize(
    "text", ["\x9b31m", "\x7f", OVERRIDE, "\u2066a\u2069", "\u2028", "\ufeff", "\U000e0041", "\x1b[2J", "\xad"]
)
def test_characters_that_cannot_be_seen_are_escaped(text: str):
    written = json_text({"label": text, "other": "é→"})
    assert written.isprintable() and "é→" in written
    assert json.loads(written) == {"label": text, "other": "é→"}


def test_the_api_escapes_them(client: Client):
    response = client.get("api/v1/entities", params={"run": "hostile", "q": "", "limit": 20})
    assert OVERRIDE not in response.text and OVERRIDE in [found["entity"] for found in response.json()["entities"]]

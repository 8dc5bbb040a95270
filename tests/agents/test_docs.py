"""The page about agents has every tool and every limit."""

from hopwalk.mcp import limits
from hopwalk.mcp.tools import TOOLS
from tests.docs.pages import DOCS, rows_of, text_of


def test_every_tool_is_on_the_page():
    rows = rows_of(DOCS / "agents.md")
    assert [name for name in rows if name in {tool.name for tool in TOOLS}] == [tool.name for tool in TOOLS]


def test_the_limits_are_on_the_page():
    text = text_of(DOCS / "agents.md")
    values = {
        "answers of each kind; paths per answer": f"{limits.MOST_ANSWERS}; {limits.MOST_PATHS}",
        "entities, relations, facts or paths in a list": limits.MOST_LISTED,
        "facts in a path between two entities": limits.MOST_HOPS,
        "queries behind proposed facts": f"{limits.MOST_QUERIES}; the result says of how many",
        "facts in one `add_facts`; in a set": f"{limits.MOST_ADDED}; {limits.MOST_IN_SET:,}",
        "characters of a name; of a new one": f"{limits.MOST_TYPED:,}; {limits.MOST_NEW_CHARACTERS}",
        "seconds per call": f"{limits.SECONDS:g}",
        "waiting calls": limits.MOST_WAITING,
    }
    for name, value in values.items():
        assert f"\n| {name} | {value} |\n" in text, name
    assert f"labels of more than {limits.MOST_SHOWN} characters" in text and f"when {limits.MOST_SETS} newer ones" in text

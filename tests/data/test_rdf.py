"""RDF files and the readable names in them."""

import sys
from pathlib import Path

import pytest

from hopwalk.errors import DataError, MissingPackageError
from tests.support.helpers import facts_of, finding, load_text

TURTLE = """
@prefix : <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:ann :knows :bob, _:b1 ; :age 7 ; rdfs:label "Anna"@de, "Ann"@en .
:bob rdfs:label "Bob \\"B\\"" .
"""


class TestRdf:
    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("facts.ttl", TURTLE),
            (
                "facts.nt",
                "<http://example.org/ann> <http://example.org/knows> <http://example.org/bob> .\n"
                "<http://example.org/ann> <http://example.org/knows> _:b1 .\n"
                '<http://example.org/ann> <http://example.org/age> "7" .\n'
                '<http://example.org/ann> <http://www.w3.org/2000/01/rdf-schema#label> "Ann" .\n'
                '<http://example.org/bob> <http://www.w3.org/2000/01/rdf-schema#label> "Bob \\"B\\"" .\n',
            ),
        ],
    )
    def test_facts_and_names(self, tmp_path: Path, name: str, text: str):
        dataset = load_text(tmp_path, text, name)
        ann, bob, knows = (f"http://example.org/{word}" for word in ("ann", "bob", "knows"))
        assert (ann, knows, bob) in facts_of(dataset)
        assert len(dataset.facts) == 2
        assert dataset.entities.name(dataset.entities.id(ann)) == "Ann"
        assert dataset.entities.name(dataset.entities.id(bob)) == 'Bob "B"'
        assert finding(dataset, "literals").count == 1

    def test_nodes_without_names(self, tmp_path: Path):
        dataset = load_text(tmp_path, "_:unnamed1 <http://p> <http://a> .\n[] <http://p> <http://b> .\n", "facts.ttl")
        assert list(dataset.entities) == ["_:unnamed facts 1", "_:unnamed1", "http://a", "http://b"]

    def test_xml(self, tmp_path: Path):
        text = (
            '<?xml version="1.0"?><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="http://x/">'
            '<rdf:Description rdf:about="http://a"><x:r rdf:resource="http://b"/></rdf:Description></rdf:RDF>'
        )
        for name, read in (("facts.owl", {}), ("facts.data", {"format": "rdf"})):
            assert facts_of(load_text(tmp_path, text, name, **read)) == {("http://a", "http://x/r", "http://b")}

    def test_bad_rdf_names_the_line(self, tmp_path: Path):
        with pytest.raises(DataError, match="the RDF is not valid") as error:
            load_text(tmp_path, "<http://a> <http://r> <http://b> .\nnonsense\n", "facts.nt")
        assert error.value.line == 2

    def test_only_values(self, tmp_path: Path):
        with pytest.raises(DataError, match="the file has no facts between entities"):
            load_text(tmp_path, '<http://a> <http://r> "7" .\n', "facts.nt")

    def test_without_pyoxigraph(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setitem(sys.modules, "pyoxigraph", None)
        with pytest.raises(MissingPackageError, match=r"pip install pyoxigraph"):
            load_text(tmp_path, TURTLE, "facts.ttl")

    @pytest.mark.parametrize("suffix", [".nt", ".ttl"])
    def test_endless_names(self, tmp_path: Path, suffix: str):
        with pytest.raises(DataError, match="the RDF has a part of more than 16 MB"):
            load_text(tmp_path, f"<http://a> <http://b> <http://{'x' * (17 * 2**20)}> .\n", f"facts{suffix}")

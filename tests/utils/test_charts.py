"""Charts as SVG."""

from xml.etree import ElementTree

from hopwalk.utils.charts import Series, bar_chart, line_chart


def test_charts_describe_themselves():
    lines = [Series("ours & more", [(1, 10.0), (2, 30.0)], level=20.0), Series("empty", [])]
    for made in (line_chart("A <title>", lines, x_label="epoch", y_label="MRR"), bar_chart("Bars", [("a", 1.0), ("b", 0.0)])):
        root = ElementTree.fromstring(made)
        assert root.get("role") == "img"
        title, description = (root.find(f"{{http://www.w3.org/2000/svg}}{name}") for name in ("title", "desc"))
        assert title is not None and title.text and description is not None and description.text
    chart = line_chart("x", lines, x_label="epoch", y_label="MRR")
    assert "ours &amp; more: from 10 to 30" in chart and "empty" not in chart
    assert "no data" in line_chart("x", [], x_label="epoch", y_label="MRR")
    flat = line_chart("x", [Series("level", [(1, 5.0), (2, 5.0)])], x_label="epoch", y_label="MRR")
    assert "nan" not in flat

"""Result files of benchmarks, and tables in the docs."""

from pathlib import Path

from benchmarks.results import fill_in, load_results, markdown_table


def test_results_of_the_first_version_have_the_names_of_today(tmp_path: Path):
    file = tmp_path / "results.json"
    assert load_results(file) == {}
    file.write_text('{"a": [{"questions": 3, "questions_per_second": 1.5, "candidates": 0}], "choices_per_walk": 2}')
    assert load_results(file) == {
        "a": [{"queries": 3, "queries_per_second": 1.5, "num_sampled_tails": 0}],
        "actions_per_walk": 2,
    }


def test_tables_are_filled_in_where_they_belong():
    table = markdown_table([["data", "kind", "n"], ["a\\1", "b", "3"]], text_columns=2)
    assert table == "| data | kind | n |\n| --- | --- | ---: |\n| a\\1 | b | 3 |"
    page = "x\n<!-- one -->\nold\n<!-- end -->\n<!-- two -->\nkept\n<!-- end -->\n"
    assert fill_in(page, "one", table) == page.replace("old", table)

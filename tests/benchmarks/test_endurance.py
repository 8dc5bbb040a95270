"""The endurance of the server: the slope of its memory, and the table in the docs."""

from tools.soak.load import Tally

from benchmarks import endurance


def test_memory_that_grows_has_a_slope():
    tally = Tally(memory_mb=[100 + second / 60 for second in range(300)])
    found = endurance.summary(tally, 5, 64)
    assert found["memory_mb_per_minute"] == 1.0
    assert (found["memory_mb_after_a_minute"], round(found["memory_mb_at_the_end"])) == (101, 105)


def test_the_page_has_the_results():
    page = endurance.PAGE.read_text(encoding="utf-8")
    assert endurance.with_tables(page) == page

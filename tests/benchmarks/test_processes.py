"""The table of training on several processes, from numbers that are easy to check."""

from benchmarks.processes import table


def test_the_table_has_times_of_a_batch():
    found = {
        "batches": 10,
        "batch_size": 16,
        "bytes_of_message": 2_000_000,
        "seconds_one": 1.0,
        "seconds_two": 0.5,
        "cpu_seconds_one": 0.9,
        "cpu_seconds_two": 0.6,
    }
    assert table({"data": {"umls": found}}).splitlines()[2:] == [
        "| umls | 16 | 2.0 MB | wall time of a batch | 100.0 ms | 50.0 ms | 2.00 |",
        "| umls | 16 | 2.0 MB | CPU time of process 0 | 90.0 ms | 60.0 ms | 1.50 |",
    ]

"""Independent pieces of work on all threads."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from hopwalk.utils.parallel import on_all_threads
from hopwalk.walker.decoding import Decoder
from hopwalk.walker.runs import build_environment
from tests.support.villages import ALONE, VILLAGE, settings_of


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_results_are_in_the_order_of_the_pieces(three_threads: None):
    barrier = threading.Barrier(2, timeout=20)  # breaks unless both pieces are worked on at once

    def work(piece: int) -> tuple[int, int]:
        barrier.wait()
        return piece * piece, torch.get_num_threads()

    assert on_all_threads(work, [3, 4]) == [(9, 1), (16, 1)]
    assert torch.get_num_threads() == 3


def test_one_piece_has_all_threads(three_threads: None):
    assert on_all_threads(lambda _: torch.get_num_threads(), ["whole"]) == [3]
    assert on_all_threads(str, []) == []


def test_an_error_is_raised_and_the_number_of_threads_restored(three_threads: None):
    with pytest.raises(ZeroDivisionError):
        on_all_threads(lambda piece: 1 // piece, [1, 0, 2])
    assert torch.get_num_threads() == 3


def test_decoding_is_the_same_on_any_number_of_threads(three_threads: None):
    settings = settings_of(ALONE | {"walk.beam": 4096})
    environment = build_environment(VILLAGE, settings)
    environment.policy.eval()
    decoder, queries = Decoder(environment, settings, None), VILLAGE.train[:12]
    assert decoder.queries_at_once == 1  # every query is a piece of its own
    on_three_threads = decoder.scores(queries.heads, queries.relations)
    torch.set_num_threads(1)
    assert np.array_equal(decoder.scores(queries.heads, queries.relations), on_three_threads)

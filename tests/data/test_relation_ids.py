"""Ids of inverse, stay and start relations."""

import numpy as np

from hopwalk.data.relation_ids import RelationIds


def test_relation_ids():
    ids = RelationIds(3)
    assert (ids.num_directed, ids.stay_id, ids.start_id, ids.num_all) == (6, 6, 7, 8)
    assert ids.inverse(np.array([0, 2, 3, 5])).tolist() == [3, 5, 0, 2]
    assert ids.is_inverse(np.array([0, 2, 3, 5, 6, 7])).tolist() == [False, False, True, True, False, False]

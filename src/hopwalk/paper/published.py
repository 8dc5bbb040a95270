"""The numbers of the paper. Shares and metrics are in percent; metrics are those of tail queries."""

from __future__ import annotations

from typing import NamedTuple

TITLES = {"umls": "UMLS", "kinship": "Kinship", "fb15k-237": "FB15k-237", "wn18rr": "WN18RR", "nell-995": "NELL-995"}


class Counts(NamedTuple):
    """A row of Table 1."""

    entities: int
    relations: int
    facts: int
    mean_degree: float
    median_degree: int


TABLE_1: dict[str, Counts] = {
    "umls": Counts(135, 46, 5216, 38.63, 28),
    "kinship": Counts(104, 25, 8544, 85.15, 82),
    "fb15k-237": Counts(14505, 237, 272115, 19.74, 14),
    "wn18rr": Counts(40945, 11, 86835, 2.19, 2),
    "nell-995": Counts(75492, 200, 154213, 4.07, 1),
}

# Hits@1, hits@10 and MRR on test, by data set and model. The walkers are called Ours(ComplEx) and Ours(ConvE) there.
TABLE_2: dict[str, dict[str, tuple[float, float, float]]] = {
    "umls": {
        "DistMult": (82.1, 96.7, 86.8),
        "ComplEx": (89.0, 99.2, 93.4),
        "ConvE": (93.2, 99.4, 95.7),
        "MINERVA": (72.8, 96.8, 82.5),
        "walker, ComplEx": (88.7, 98.5, 92.9),
        "walker, ConvE": (90.2, 99.2, 94.0),
    },
    "kinship": {
        "DistMult": (48.7, 90.4, 61.4),
        "ComplEx": (81.8, 98.1, 88.4),
        "ConvE": (79.7, 98.1, 87.1),
        "MINERVA": (60.5, 92.4, 72.0),
        "walker, ComplEx": (81.1, 98.2, 87.8),
        "walker, ConvE": (78.9, 98.2, 86.5),
    },
    "fb15k-237": {
        "DistMult": (32.4, 60.0, 41.7),
        "ComplEx": (32.8, 61.6, 42.5),
        "ConvE": (34.1, 62.2, 43.5),
        "MINERVA": (21.7, 45.6, 29.3),
        "walker, ComplEx": (32.9, 54.4, 39.3),
        "walker, ConvE": (32.7, 56.4, 40.7),
    },
    "wn18rr": {
        "DistMult": (43.1, 52.4, 46.2),
        "ComplEx": (41.8, 48.0, 43.7),
        "ConvE": (40.3, 54.0, 44.9),
        "MINERVA": (41.3, 51.3, 44.8),
        "walker, ComplEx": (43.7, 54.2, 47.2),
        "walker, ConvE": (41.8, 51.7, 45.0),
    },
    "nell-995": {
        "DistMult": (55.2, 78.3, 64.1),
        "ComplEx": (64.3, 86.0, 72.6),
        "ConvE": (67.8, 88.6, 76.1),
        "MINERVA": (66.3, 83.1, 72.5),
        "walker, ComplEx": (65.5, 83.6, 72.2),
        "walker, ConvE": (65.6, 84.4, 72.7),
    },
}

# Rows of Table 2 that the paper quotes from Das et al. (2018), as it does MINERVA's.
TABLE_2_QUOTED: dict[str, dict[str, tuple[float, float, float]]] = {
    "umls": {"NeuralLP": (64.3, 96.2, 77.8), "NTP-λ": (84.3, 100.0, 91.2)},
    "kinship": {"NeuralLP": (47.5, 91.2, 61.9), "NTP-λ": (75.9, 87.8, 79.3)},
    "fb15k-237": {"NeuralLP": (16.6, 34.8, 22.7)},
    "wn18rr": {"NeuralLP": (37.6, 65.7, 46.3)},
    "nell-995": {},
}


class Ablation(NamedTuple):
    """Ours(ConvE), without reward shaping, without action dropout."""

    whole: float
    no_rs: float
    no_ad: float


# MRR on dev; test facts are not filtered.
TABLE_3: dict[str, Ablation] = {
    "umls": Ablation(73.0, 67.7, 61.3),
    "kinship": Ablation(75.0, 66.5, 65.4),
    "fb15k-237": Ablation(38.2, 35.1, 31.0),
    "wn18rr": Ablation(43.8, 45.7, 39.1),
    "nell-995": Ablation(78.8, 78.4, 76.1),
}

# The same with the complete filter: test facts are filtered too (appendix).
DEV_COMPLETE: dict[str, Ablation] = {
    "umls": Ablation(95.1, 85.6, 76.2),
    "kinship": Ablation(86.8, 75.7, 75.9),
    "fb15k-237": Ablation(41.8, 37.1, 32.4),
    "wn18rr": Ablation(44.1, 46.1, 39.3),
    "nell-995": Ablation(78.8, 78.4, 76.1),
}


class Stratum(NamedTuple):
    """A part of the dev queries: its share, and its MRRs; None if it is empty."""

    share: float
    mrr: Ablation | None


TABLE_4: dict[str, dict[str, Stratum]] = {
    "umls": {"to-many": Stratum(99.1, Ablation(73.1, 67.9, 61.3)), "to-one": Stratum(0.9, Ablation(62.5, 55.5, 54.4))},
    "kinship": {"to-many": Stratum(100.0, Ablation(75.0, 66.5, 65.4)), "to-one": Stratum(0.0, None)},
    "fb15k-237": {"to-many": Stratum(76.6, Ablation(28.3, 24.5, 20.9)), "to-one": Stratum(23.4, Ablation(72.0, 69.8, 63.9))},
    "wn18rr": {"to-many": Stratum(52.8, Ablation(65.0, 65.7, 57.9)), "to-one": Stratum(47.2, Ablation(20.1, 23.2, 18.1))},
    "nell-995": {"to-many": Stratum(12.9, Ablation(55.7, 62.1, 56.9)), "to-one": Stratum(87.1, Ablation(81.4, 80.7, 80.5))},
}

TABLE_5: dict[str, dict[str, Stratum]] = {
    "umls": {"seen": Stratum(97.2, Ablation(73.1, 67.9, 61.4)), "unseen": Stratum(2.8, Ablation(68.5, 61.5, 58.7))},
    "kinship": {"seen": Stratum(96.8, Ablation(75.1, 66.5, 65.8)), "unseen": Stratum(3.2, Ablation(73.6, 64.3, 53.3))},
    "fb15k-237": {"seen": Stratum(76.1, Ablation(28.3, 24.3, 20.6)), "unseen": Stratum(23.9, Ablation(70.9, 69.1, 63.9))},
    "wn18rr": {"seen": Stratum(41.8, Ablation(60.8, 62.0, 53.4)), "unseen": Stratum(58.2, Ablation(31.5, 33.9, 28.8))},
    "nell-995": {"seen": Stratum(15.3, Ablation(40.4, 45.9, 42.5)), "unseen": Stratum(84.7, Ablation(85.5, 84.7, 84.3))},
}


class Spread(NamedTuple):
    """Mean and standard deviation of the MRR on test over five seeds."""

    mean: float
    deviation: float


FIVE_SEEDS: dict[str, dict[str, Spread]] = {
    "umls": {"ConvE": Spread(95.5, 0.4), "walker, ConvE": Spread(93.7, 0.2)},
    "kinship": {"ConvE": Spread(86.9, 0.3), "walker, ConvE": Spread(86.2, 0.7)},
    "fb15k-237": {"ConvE": Spread(43.5, 0.1), "walker, ConvE": Spread(40.7, 0.2)},
    "wn18rr": {"ConvE": Spread(45.3, 0.4), "walker, ConvE": Spread(44.7, 0.2)},
    "nell-995": {"ConvE": Spread(76.2, 0.3), "walker, ConvE": Spread(72.7, 0.4)},
}

ACTION_DROPOUT = {"umls": 0.95, "kinship": 0.9, "fb15k-237": 0.5, "wn18rr": 0.1, "nell-995": 0.1}

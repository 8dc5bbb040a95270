"""Paths grouped by rule: the order, what is shown, what is left out, and their text."""

from hopwalk.reasoning.asking import reasons
from hopwalk.reasoning.rule_groups import NOTHING_HOLDS, cut_groups, group_lines, group_paths, rule_of, shown_groups
from hopwalk.reasoning.rules import Evidence, Rule
from hopwalk.reasoning.values import Edge, ReasoningPath

RIGHT = {"r": 30, "s": 90, "never": 0}


def path(relation: str, middle: str, share: float) -> ReasoningPath:
    return ReasoningPath("h", (Edge(relation, middle), Edge("t", "answer", is_inverse=True)), share)


def count(rule: Rule) -> Evidence:
    return Evidence(100, RIGHT[rule.body[0][0]], False)


PATHS = [path("never", "a", 0.4), path("s", "b", 0.1), path("r", "c", 0.05), path("r", "d", 0.3)]
GROUPS = group_paths("likes", PATHS, count)


def test_a_rule_stands_once_with_its_paths_the_best_first():
    assert [str(group.rule) for group in GROUPS] == [
        "likes(X,Y) ⇐ r(X,A), t(Y,A)",
        "likes(X,Y) ⇐ s(X,A), t(Y,A)",
        "likes(X,Y) ⇐ never(X,A), t(Y,A)",  # the largest share, but it never holds
    ]
    assert [one.share for one in GROUPS[0].paths] == [0.3, 0.05] and GROUPS[0].share == 0.35
    made = GROUPS[0].to_dict()
    assert (made["confidence"], made["support"], made["predictions"], len(made["paths"])) == (0.3, 30, 100, 2)
    assert str(rule_of("likes⁻¹", PATHS[1])) == "likes(Y,X) ⇐ s(X,A), t(Y,A)"


def test_text():
    assert group_lines(GROUPS) == [
        "likes(X,Y) ⇐ r(X,A), t(Y,A): right 30 % of the time, 30 of 100",
        "  share 0.30  h —r→ d ←t— answer",
        "  share 0.05  h —r→ c ←t— answer",
        "likes(X,Y) ⇐ s(X,A), t(Y,A): right 90 % of the time, 90 of 100",
        "  share 0.10  h —s→ b ←t— answer",
        "share 0.40 by paths whose rules never hold in the graph",
    ]


def test_rules_that_never_hold_are_shown_only_if_there_is_nothing_else():
    shown, note = shown_groups(GROUPS[2:])
    assert (shown, note) == (GROUPS[2:], NOTHING_HOLDS)
    assert group_lines(GROUPS[2:])[:2] == [NOTHING_HOLDS, "likes(X,Y) ⇐ never(X,A), t(Y,A): never right, 0 of 100"]
    assert shown_groups([]) == ((), "") and group_lines([]) == []


def test_with_few_paths_every_rule_comes_before_variants():
    cut = cut_groups(GROUPS, 2)
    assert [[one.edges[0].entity for one in group.paths] for group in cut] == [["d"], ["b"]]
    assert [[one.edges[0].entity for one in group.paths] for group in cut_groups(GROUPS, 3)] == [["d", "c"], ["b"]]
    assert cut_groups(GROUPS, 9) == GROUPS


def test_no_tautologies():
    """Head 0, relation 7, answer 5: neither the fact, nor the fact after a walk there and back; detours are taken out."""
    fact, there_and_back = ((7, 5),), ((1, 3), (2, 0), (7, 5))
    assert reasons(0, 7, 5, [(fact, 0.5), (there_and_back, 0.3)]) == []
    direct, detour = ((1, 3), (4, 5)), ((6, 8), (9, 0), (1, 3), (4, 5))
    assert reasons(0, 7, 5, [(direct, 0.25), (fact, 0.5), (detour, 0.125)]) == [(direct, 0.375)]
    by_the_answer = ((7, 5), (1, 3), (2, 5))  # the fact, and a loop behind it
    assert reasons(0, 7, 5, [(by_the_answer, 1.0)]) == []
    assert reasons(0, 7, 5, [(((8, 5),), 1.0)]) == [(((8, 5),), 1.0)]  # another relation between the two is a reason
    assert reasons(0, 7, 0, [(((1, 3), (2, 0)), 1.0)]) == [(((1, 3), (2, 0)), 1.0)]  # a head that may be its own answer

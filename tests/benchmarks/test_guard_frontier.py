"""The frontier of guards: its picture and its table follow from records, and a training keeps or forgets."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import guard_frontier
from benchmarks.guard_frontier import HALF, JUDGED, RATES, chart, chosen_by_others, means, table
from benchmarks.two_tasks import WORDS
from ramet.reports import picture


def record(guard, strength, seed, kept, learned, apart=HALF):
    found = {"before": 1.0, "kept": kept, "learned": learned}
    return {"seed": seed, "apart": apart, "guard": guard, "strength": strength, **found}


RECORDS = [
    *(record("none", RATES[0], seed, 0.5 + 0.1 * seed, 0.9) for seed in range(2)),
    *(record(*JUDGED, seed, 0.99, 0.88) for seed in range(2)),
    *(record(JUDGED[0], 1.0, seed, 0.7, 0.9) for seed in range(2)),
    *(record("none", RATES[0], seed, 0.98, 1.0, WORDS) for seed in range(2)),
    *(record(*JUDGED, seed, 1.0, 1.0, WORDS) for seed in range(2)),
]


def test_means_go_from_weak_to_strong():
    found = means(RECORDS, "kept")
    assert list(found[JUDGED[0]]) == [1.0, JUDGED[1]]
    assert found["none"] == {RATES[0]: pytest.approx(0.55)}


def test_the_table_says_what_is_kept_and_what_it_costs():
    apart, half, _ = table(RECORDS).splitlines()[-3:]
    assert "No word shared, 2 seeds" in apart and "at least 100.0% of A" in apart and "0.00 [0.00, 0.00]" in apart
    assert "Half of the words shared" in half and "at least 99.0% of A" in half and "2.00 [2.00, 2.00] points" in half
    assert "55.0% in the mean without a guard" in half and "never below unguarded" in half
    worse = [row | {"kept": 0.4} if row["guard"] != "none" else row for row in RECORDS]
    assert "in some seed below unguarded" in table(worse)


def test_the_page_has_the_table_of_the_records():
    page = Path(__file__).parents[2] / "docs" / "guards.md"
    assert table(guard_frontier.read()) in page.read_text()


def test_a_seeds_strength_is_the_weakest_with_which_all_others_keep_what_is_wished():
    """Of the strengths 1, 0.1 and 0.01, seed 0 needs 0.1, and seed 1, which alone chooses for seed 0, needs 0.01."""
    kept = {(1.0, 0): 0.9, (1.0, 1): 0.99, (0.1, 0): 1.0, (0.1, 1): 0.994, (0.01, 0): 1.0, (0.01, 1): 0.995}
    rows = [record(JUDGED[0], strength, seed, share, 0.8 + strength) for (strength, seed), share in kept.items()]
    rows += [record("none", RATES[0], seed, 0.5, 0.9) for seed in range(2)]
    assert [chosen_by_others(rows, seed) for seed in range(2)] == [0.01, 0.1]
    assert chosen_by_others([row | {"kept": 0.5} for row in rows], 0) == 0.01, "the strongest, if none will do"
    rows += [record("none", RATES[0], seed, 0.98, 1.0, WORDS) for seed in range(2)]
    rows += [record(*JUDGED, seed, 1.0, 1.0, WORDS) for seed in range(2)]
    line = table(rows).splitlines()[-1]
    assert "(0.1, 0.01)" in line and "at least 99.4% of A" in line and "9.00 at most" in line


def test_the_picture_is_a_file_of_its_own_with_a_line_for_each_guard():
    drawn = picture(chart(RECORDS))
    root = ElementTree.fromstring(drawn)
    assert root.tag.endswith("svg") and "--page" in drawn and "var(--ink)" in drawn
    assert "none" in drawn and JUDGED[0] in drawn


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ramet.guards.coverage.UncoveredWarning")  # embeddings and norms, by Kronecker
def test_a_seed_has_every_guard_at_every_strength(monkeypatch):
    monkeypatch.setattr(guard_frontier, "STEPS", {HALF: 3, WORDS: 3})
    rows = list(guard_frontier.run(0))
    count = 2 + len(RATES) + sum(len(strengths) for _, strengths in guard_frontier.GUARDS.values())
    assert len({(row["apart"], row["guard"], row["strength"]) for row in rows}) == len(rows) == count

"""Means, deviations, gaps and the paper's numbers."""

from __future__ import annotations

from typing import Any

import pytest

from placl.studies.study import read_study
from placl.studies.tables import cells, gap_recovered, html, make_tables, markdown, notes, paper_numbers


def row(method: str, test: float, seed: int = 0, fraction: float = 0.05, dataset: str = "cub") -> dict[str, Any]:
    where = {"dataset": dataset, "method": method, "fraction": fraction, "seed": seed}
    return {**where, "test": test, "val": 1.0, "trainings": 3, "images": 64000, "seconds": 90.0, "commit": "abc"}


ROWS = [
    *(row("supervised", test, seed) for seed, test in enumerate((60.0, 61.0, 62.0))),
    *(row("placl", test, seed) for seed, test in enumerate((66.0, 66.0, 69.0))),
    row("supervised", 71.0, fraction=1.0),
]


def test_mean_and_deviation_are_of_the_seeds() -> None:
    found = cells(ROWS)
    assert found["cub", "supervised", 0.05].mean == 61.0
    assert found["cub", "supervised", 0.05].deviation == 1.0  # of a sample: divided by two, not three
    assert found["cub", "supervised", 0.05].text == "61.0 ± 1.0"
    assert found["cub", "placl", 0.05].deviation == pytest.approx(3**0.5)
    assert found["cub", "supervised", 1.0].text == "71.0"  # one seed has no deviation


def test_the_gap_is_of_means() -> None:
    found = cells(ROWS)
    assert gap_recovered(found, ("cub", "placl", 0.05)) == pytest.approx((67 - 61) / (71 - 61))
    assert gap_recovered(found, ("cub", "supervised", 0.05)) == 0
    assert gap_recovered(found, ("cub", "supervised", 1.0)) is None
    assert gap_recovered(cells(ROWS[:6]), ("cub", "placl", 0.05)) is None  # nothing with all labels


def test_a_variant_has_a_gap_and_a_title_of_its_own() -> None:
    rows = [row(f"{name}+{size}", test, fraction=fraction) for name, size, test, fraction in (
        ("supervised", "64px", 50.0, 0.05), ("supervised", "96px", 60.0, 0.05), ("placl", "64px", 55.0, 0.05),
        ("supervised", "64px", 70.0, 1.0), ("supervised", "96px", 80.0, 1.0),
    )]  # fmt: skip
    study = read_study("table1").model_copy(update={"variants": {"64px": {}, "96px": {}}, "fractions": (0.05, 1.0)})
    (table,) = make_tables(study, rows)
    assert [(line[0], line[1], line[3]) for line in table.lines] == [
        ("Supervised, 64px", "50.0", "0 %"),
        ("Supervised, 96px", "60.0", "0 %"),
        ("PLACL, 64px", "55.0", "25 %"),
        ("Supervised, 64px (all labels)", "70.0", "-"),
        ("Supervised, 96px (all labels)", "80.0", "-"),
    ]


def test_a_row_that_has_all_labels_and_more_images_stands_in_a_table_of_its_own() -> None:
    rows = [*ROWS, row("placl", 73.0, fraction=1.0)]
    few, whole = make_tables(read_study("table1").narrowed(datasets=["cub"]), rows)
    assert [line[0] for line in few.lines] == ["Supervised", "PLACL", "Supervised (all labels)"]
    assert (whole.title, [line[0] for line in whole.lines]) == (
        "cub, 100 % of the labels", ["Supervised (all labels)", "PLACL (all labels)"]
    )  # fmt: skip


def test_a_run_without_a_test_set_has_no_cell() -> None:
    assert cells([{**row("pl", 1.0), "test": None}]) == {}


def test_a_study_may_be_of_validation_scores() -> None:
    rows = [{**row("pl", 1.0, seed), "test": None, "val": val} for seed, val in enumerate((60.0, 62.0))]
    grid = read_study("table1").model_copy(update={"scored_on": "val"})
    (table,) = make_tables(grid, rows)
    assert table.head[:2] == ("method", "val")
    assert table.lines[0][1] == "61.0 ± 1.4"
    assert "scored on that validation set" in notes(grid, "cpu", "1 step")
    assert "scored on the test set once" in notes(read_study("table1"), "cpu", "1 step")
    assert "Scores are PCK@0.1: mean ± standard deviation" in notes(grid, "cpu", "1 step", "PCK@0.1")


def test_a_table_has_ours_and_the_papers_and_the_cost() -> None:
    study = read_study("table1").narrowed(datasets=["cub"])
    (table,) = make_tables(study, ROWS)
    assert table.title == "cub, 5 % of the labels"
    assert table.lines[1] == ("PLACL", "67.0 ± 1.7", "93.01 ± 0.33", "60 %", "3", "3", "64 k", "1.5")
    assert table.lines[2][:3] == ("Supervised (all labels)", "71.0", "93.62 ± 0.13")
    text = markdown(study, [table], "note")
    assert "| PLACL | 67.0 ± 1.7 | 93.01 ± 0.33 | 60 % | 3 | 3 | 64 k | 1.5 |" in text.splitlines()
    assert "<td>93.01 ± 0.33</td>" in html(study, [table], "a < b")
    assert "a &lt; b" in html(study, [table], "a < b")


def test_targets_stand_side_by_side_with_their_mean_and_pck_beside_map() -> None:
    cat, dog = "animalpose_to_cat", "animalpose_to_dog"
    rows = [
        *(row("source_only", test, seed, 1.0, cat) for seed, test in enumerate((20.0, 22.0))),
        row("source_only", 30.0, 0, 1.0, dog),
        {**row("placl", 25.0, 0, 1.0, cat), "test_pck": 61.25},
    ]
    overview, first, second = make_tables(read_study("table2"), rows)
    assert overview.title == "all targets"
    assert overview.head == ("method", "cat", "dog", "mean")
    assert overview.lines == (("Source only", "21.0 ± 1.4", "30.0", "25.5"), ("PLACL", "25.0", "-", "-"))
    assert overview.shown == 4
    assert first.title == cat
    assert first.head[:4] == ("method", "test", "paper", "PCK")
    assert first.lines == (
        ("Source only", "21.0 ± 1.4", "37.6", "-", "2", "3", "64 k", "1.5"),
        ("PLACL", "25.0", "47.1", "61.2", "1", "3", "64 k", "1.5"),
    )
    assert second.lines[0][:3] == ("Source only", "30.0", "37.3")
    assert make_tables(read_study("table2"), []) == []


def test_a_study_of_ones_own_shows_all_that_the_paper_has() -> None:
    numbers = paper_numbers("mine")
    assert numbers["lspet", "placl", 0.05] == "70.76 ± 1.47"
    assert numbers["lspet", "placl-random", 0.05] == "65.42"
    assert numbers["lspet", "fixed-0.7", 0.05] == "67.35"
    assert numbers["animalpose_to_horse", "placl", 1.0] == "66.0"

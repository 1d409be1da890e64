"""What a study is, and the runs it expands to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placl.errors import InputError
from placl.studies.study import GRIDS, expand, known_rows, read_study, scale_settings

ALL = ("lspet", "mpii", "mpii_full", "cub", "atrw", "coco")


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    for name in ALL:
        (tmp_path / name).mkdir()
    return {name: tmp_path / name for name in ALL}


@pytest.mark.parametrize("name", GRIDS)
def test_every_grid_of_the_paper_expands(name: str, places: dict[str, Path], tmp_path: Path) -> None:
    study = read_study(name)
    for scale in ("cpu", "paper"):
        runs = expand(study, places, tmp_path, scale=scale)
        assert len({run.out for run in runs}) == len(runs) > 0
        assert {run.seed for run in runs} == {0, 1, 2}


def test_table_1_has_the_papers_rows(places: dict[str, Path], tmp_path: Path) -> None:
    runs = expand(read_study("table1"), places, tmp_path)
    # 7 methods at four fractions and one at all labels, 5 datasets, 3 seeds
    assert len(runs) == (7 * 4 + 1) * 5 * 3
    assert {run.method for run in runs if run.fraction == 1} == {"supervised"}


def test_early_rows_come_first(animals_file: Path, study_file: Path, tmp_path: Path) -> None:
    runs = expand(read_study(str(study_file)), {"animals": animals_file}, tmp_path)
    assert [(run.method, run.fraction, run.seed) for run in runs] == [
        *[("supervised", 0.3, 0), ("supervised", 0.3, 1), ("supervised", 1.0, 0), ("supervised", 1.0, 1)],
        *[("pl", 0.3, 0), ("pl", 0.3, 1), ("fixed-0.3", 0.3, 0), ("fixed-0.3", 0.3, 1)],
        *[("mine", 0.3, 0), ("mine", 0.3, 1)],
    ]


def test_settings_are_laid_over_each_other(animals_file: Path, study_file: Path, tmp_path: Path) -> None:
    study = read_study(str(study_file))
    overrides = {"train.lr": 0.5, "seed": 9}
    runs = {(run.method, run.seed): run.config
            for run in expand(study, {"animals": animals_file}, tmp_path, overrides=overrides)}  # fmt: skip
    fixed, mine = runs["fixed-0.3", 1], runs["mine", 0]
    assert (fixed.method, fixed.search.searcher, fixed.search.initial) == ("placl", "constant", 0.3)
    assert mine.search.searcher == "manual"
    assert {config.train.lr for config in runs.values()} == {0.5}
    assert (fixed.seed, fixed.data.split_seed, fixed.data.label_fraction) == (1, 1, 0.3)  # the grid's, always
    assert fixed.data.labeled == (animals_file.parent / "annotations.json",)


def test_all_rows_of_a_scale_share_budget_and_augmentation(places: dict[str, Path], tmp_path: Path) -> None:
    study = read_study("table1").narrowed(datasets=["cub"], fractions=[0.05], seeds=[0])
    runs = expand(study, places, tmp_path)
    assert len({(run.config.train.model_dump_json(), run.config.augment.model_dump_json()) for run in runs}) == 1
    assert all(run.config.taught() == run.config for run in runs)  # no teacher is larger than what is compared


def test_a_protocol_is_scored_its_way(places: dict[str, Path], tmp_path: Path) -> None:
    runs = {run.dataset: run.config for run in expand(read_study("table1"), places, tmp_path)}
    assert (runs["mpii"].reward.metric, runs["mpii"].reward.alpha) == ("pckh", 0.5)
    assert runs["coco"].reward.metric == "oks"
    assert (runs["cub"].data.protocol, runs["cub"].data.root) == ("cub", tmp_path / "cub")


def test_variants_multiply_the_rows(places: dict[str, Path], tmp_path: Path) -> None:
    runs = expand(read_study("table4"), places, tmp_path, scale="paper")
    assert len(runs) == 2 * 6 * 3
    models = {run.method: run.config.model for run in runs}
    assert models["placl+resnet-101"].backbone == "resnet101"
    assert models["supervised+hrnet-w48"].name == "hrnet_w48"


def test_every_known_row_makes_a_configuration(places: dict[str, Path], tmp_path: Path) -> None:
    study = read_study("table1").model_copy(update={"rows": tuple(known_rows().values())})
    runs = expand(study.narrowed(datasets=["cub"], seeds=[0], fractions=[0.05]), places, tmp_path)
    assert {run.method for run in runs} == set(known_rows())


def test_a_part_can_be_chosen() -> None:
    part = read_study("table1").narrowed(datasets=["cub"], rows=["placl", "cl"], seeds=[7], fractions=[0.3])
    assert (part.datasets, [row.name for row in part.rows], part.seeds, part.fractions) == (
        ("cub",), ["placl", "cl"], (7,), (0.3,)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rows": ["placll"]}, 'no "placll" among its rows'),
        ({"datasets": ["birds"]}, 'no "birds" among its datasets'),
    ],
)
def test_what_a_study_does_not_have_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_study("table1").narrowed(**change)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("table2", r'study "table2" is unknown\. Did you mean "table'),
        ("none.yaml", "none.yaml: cannot be read"),
    ],
)
def test_a_study_that_is_not_there(name: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_study(name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rows: [plcl]", r'row "plcl" is unknown\. Did you mean "p'),
        ("- 1", "must be a mapping"),
        ("rows: [pl]", "title: Field required"),
        ("title: x\nrows: [pl]\ndatasets: [a]\nfractions: [0.1]\nseed: 3", "seed: Extra inputs"),
        ("a: [", "is not valid YAML"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=rf"broken\.yaml: .*{words}"):
        read_study(str(file))


def test_a_dataset_without_a_place_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="where is lspet"):
        expand(read_study("table3"), {}, tmp_path)
    with pytest.raises(InputError, match=r"is neither a placl\.yaml nor the folder of LSP"):
        expand(read_study("table3"), {"lspet": tmp_path / "nowhere"}, tmp_path)


def test_an_unknown_scale_is_refused() -> None:
    with pytest.raises(InputError, match='scale "huge" is unknown'):
        scale_settings("huge")

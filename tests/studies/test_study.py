"""What a study is, and the runs it expands to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placl.api import check_networks
from placl.errors import InputError
from placl.methods.method import PLACES
from placl.studies import budget
from placl.studies.study import GRIDS, expand, known_rows, read_study, scale_settings

ALL = ("lspet", "mpii", "mpii_full", "cub", "atrw", "coco", "animalpose")


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    for name in ALL:
        (tmp_path / name).mkdir()
    return {name: tmp_path / name for name in ALL}


@pytest.mark.parametrize("name", GRIDS)
def test_every_grid_of_the_paper_expands(name: str, places: dict[str, Path], tmp_path: Path) -> None:
    study = read_study(name)
    study = study.narrowed(rows=[row.name for row in study.rows if row.settings["method"] in PLACES])
    for scale in ("cpu", "paper"):
        runs = expand(study, places, tmp_path, scale=scale)
        assert len({run.out for run in runs}) == len(runs) > 0
        assert {run.seed for run in runs} == {0, 1, 2}


def test_table_1_has_the_papers_rows(places: dict[str, Path], tmp_path: Path) -> None:
    runs = expand(read_study("table1"), places, tmp_path)
    # 7 methods at four fractions and one at all labels, 5 datasets, 3 seeds
    assert len(runs) == (7 * 4 + 1) * 5 * 3
    assert {run.method for run in runs if run.fraction == 1} == {"supervised"}


def test_table_2_has_the_papers_targets_and_all_labels_of_the_others(places: dict[str, Path], tmp_path: Path) -> None:
    study = read_study("table2")
    assert [row.name for row in study.rows] == [
        "source_only", "domain_confusion", "residual_transfer", "cyclegan_pl", "ws_cda_pplo",
        "placl", "placl-source-val",
    ]  # fmt: skip
    runs = expand(study.narrowed(rows=["source_only", "placl", "placl-source-val"]), places, tmp_path)
    assert len(runs) == 3 * 5 * 3
    assert {run.fraction for run in runs} == {1.0}
    first, last = runs[0].config, runs[-1].config
    assert (first.data.protocol, first.data.root) == ("animalpose_to_cat", tmp_path / "animalpose")
    assert (first.method, first.reward.metric, first.data.val_from) == ("source_only", "oks", "target")
    assert (last.data.protocol, last.method, last.data.val_from) == ("animalpose_to_horse", "placl", "source")
    own = "1,200 steps of 64 images, tiny at 64 px"
    assert budget(runs) == f"the same budget ({own}; PLACL's last network goes on from others for 800 more)"
    assert budget(runs[:1]) == f"the same budget ({own})"
    assert {run.config.model.input_size for run in runs} == {64}  # what the scale has for the dataset, all targets


def test_a_dataset_stands_for_its_targets_and_a_target_for_itself(places: dict[str, Path], tmp_path: Path) -> None:
    study = read_study("table2").narrowed(rows=["source_only"], seeds=[0])
    assert len(study.narrowed(datasets=["animalpose"]).datasets) == 5
    (run,) = expand(
        study.narrowed(datasets=["animalpose_to_dog"]), {"animalpose_to_dog": places["animalpose"]}, tmp_path
    )
    assert run.config.data.protocol == "animalpose_to_dog"
    with pytest.raises(InputError, match='study table2 has no "cub" among its datasets'):
        study.narrowed(datasets=["cub"])


def test_a_known_row_may_be_changed_and_have_its_own_seeds(animals_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    rows = "rows: [supervised, {name: pl, seeds: [1]}, {name: placl-fixed, search.initial: 0.2}]"
    file.write_text(f"title: mine\ndatasets: [animals]\nfractions: [0.3]\nseeds: [0, 1]\n{rows}\n")
    study = read_study(str(file))
    assert [row.title for row in study.rows][1] == "PL (data distillation)"
    runs = expand(study, {"animals": animals_file}, tmp_path)
    assert [(run.method, run.seed) for run in runs] == [
        ("supervised", 0), ("supervised", 1), ("pl", 1), ("placl-fixed", 0), ("placl-fixed", 1)
    ]  # fmt: skip
    assert (runs[-1].config.search.searcher, runs[-1].config.search.initial) == ("fixed", 0.2)


def test_early_rows_come_first(animals_file: Path, study_file: Path, tmp_path: Path) -> None:
    runs = expand(read_study(str(study_file)), {"animals": animals_file}, tmp_path)
    assert [(run.method, run.fraction, run.seed) for run in runs] == [
        *[("supervised", 0.3, 0), ("supervised", 0.3, 1), ("supervised", 1.0, 0), ("supervised", 1.0, 1)],
        *[("pl", 0.3, 0), ("pl", 0.3, 1), ("fixed-0.3", 0.3, 0), ("fixed-0.3", 0.3, 1)],
        *[("mine", 0.3, 0), ("mine", 0.3, 1)],
    ]


def test_settings_are_laid_over_each_other(animals_file: Path, study_file: Path, tmp_path: Path) -> None:
    study = read_study(str(study_file))
    overrides = {"train.lr": 0.5}
    runs = {(run.method, run.seed): run.config
            for run in expand(study, {"animals": animals_file}, tmp_path, overrides=overrides)}  # fmt: skip
    fixed, mine = runs["fixed-0.3", 1], runs["mine", 0]
    assert (fixed.method, fixed.search.searcher, fixed.search.initial) == ("placl", "constant", 0.3)
    assert mine.search.searcher == "manual"
    assert {config.train.lr for config in runs.values()} == {0.5}
    assert (fixed.seed, fixed.data.split_seed, fixed.data.label_fraction) == (1, 1, 0.3)  # the grid's, always
    assert fixed.data.labeled == (animals_file.parent / "annotations.json",)


@pytest.mark.parametrize(("key", "by"), [("seed", "seeds"), ("data.label_fraction", "fractions")])
def test_what_the_grid_sets_is_not_set_otherwise(animals_file: Path, study_file: Path, key: str, by: str) -> None:
    study, places = read_study(str(study_file)), {"animals": animals_file}
    with pytest.raises(InputError, match=rf"{key}: a study sets it by its {by}. Choose them \(--{by}\)"):
        expand(study, places, Path("out"), overrides={key: 1})
    with pytest.raises(InputError, match=key):
        expand(study.model_copy(update={"settings": {key: 1}}), places, Path("out"))


def test_sections_are_laid_over_each_other_key_by_key(animals_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    rows = "rows: [supervised, {name: mine, method: supervised, train: {lr: 0.2}}]"
    text = (
        f"title: mine\ndatasets: [animals]\nfractions: [0.3]\nseeds: [0]\nsettings: {{train: {{epochs: 40}}}}\n{rows}\n"
    )
    file.write_text(text)
    first, mine = expand(read_study(str(file)), {"animals": animals_file}, tmp_path, overrides={"train": {"batch": 8}})
    of_scale = scale_settings("cpu")
    train = first.config.train
    assert (train.optimizer, train.lr) == (of_scale["train.optimizer"], of_scale["train.lr"])
    assert (train.epochs, train.batch, train.steps_per_epoch) == (40, 8, of_scale["train.steps_per_epoch"])
    assert mine.config.train == train.model_copy(update={"lr": 0.2})


def test_all_labels_and_images_without_any_make_a_run(animals_file: Path, study_file: Path, tmp_path: Path) -> None:
    file = animals_file.with_name("with_more.yaml")
    file.write_text(animals_file.read_text() + "unlabeled: images\n")
    runs = expand(read_study(str(study_file)).narrowed(fractions=[1.0], seeds=[0]), {"animals": file}, tmp_path)
    assert [run.method for run in runs] == ["supervised", "pl", "fixed-0.3", "mine"]


def test_nothing_counts_twice(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("title: mine\ndatasets: [a, a]\nfractions: [0.3, 0.3]\nseeds: [0, 1, 0]\nrows: [pl]\n")
    study = read_study(str(file))
    assert (study.datasets, study.fractions, study.seeds) == (("a",), (0.3,), (0, 1))
    part = study.narrowed(seeds=[2, 2], rows=["pl", "pl"])
    assert (part.seeds, [row.name for row in part.rows]) == ((2,), ["pl"])
    whole = study.around(study.narrowed(seeds=[2], fractions=[0.1]))
    assert (whole.seeds, whole.fractions) == ((0, 1, 2), (0.3, 0.1))


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


def test_variants_may_be_called_by_numbers(places: dict[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "sizes.yaml"
    file.write_text(
        "title: Sizes\ndatasets: [cub]\nfractions: [0.05]\nseeds: [0]\nrows: [supervised]\n"
        "variants: {64: {model.input_size: 64}}\n"
    )
    (run,) = expand(read_study(str(file)), places, tmp_path)
    assert (run.method, run.config.model.input_size) == ("supervised+64", 64)


def test_every_known_row_makes_a_configuration(places: dict[str, Path], tmp_path: Path) -> None:
    found = set()
    for grid, dataset, across in (("table1", "cub", False), ("table2", "animalpose_to_cat", True)):
        rows = tuple(row for row in known_rows().values() if ("data.val_from" in row.settings) == across)
        study = read_study(grid).model_copy(update={"rows": rows}).narrowed(datasets=[dataset], seeds=[0])
        found |= {run.method for run in expand(study, places, tmp_path)}
    assert found == set(known_rows())


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
        ("table7", r'study "table7" is unknown\. Did you mean "table'),
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
        ("rows: [{name: superviesd, seeds: [0]}]", r'row "superviesd" is unknown\. Did you mean "supervised"'),
        ("rows: [{name: pl, seeds: 0}]", "seeds: Input should be a valid tuple"),
        ("rows: [{title: foo, method: placl}]", "has no name"),
        ("rows: [{name: 3, method: placl}]", "has no name"),
        ("rows: [[placl]]", "has no name"),
        ("rows: 5", "rows: must be a list"),
        ("rows: supervised", "rows: must be a list"),
        ("title: x", "rows: must be a list"),
        ("rows: [pl, pl]", 'row "pl" is there twice'),
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
    with pytest.raises(InputError, match=r"where is lspet, coco\?.* --data lspet=PATH --data coco=PATH,"):
        expand(read_study("table5"), {}, tmp_path)
    with pytest.raises(InputError, match="nowhere: is not there"):
        expand(read_study("table3"), {"lspet": tmp_path / "nowhere"}, tmp_path)
    (tmp_path / "file.txt").touch()
    with pytest.raises(InputError, match=r"is neither a placl\.yaml nor the folder of LSP"):
        expand(read_study("table3"), {"lspet": tmp_path / "file.txt"}, tmp_path)


def test_what_a_scale_asks_of_a_study_holds_at_that_scale(tmp_path: Path) -> None:
    (tmp_path / "placl.yaml").write_text("labeled: labels.json\n")
    sizes = {}
    for scale in ("cpu", "paper"):
        runs = expand(read_study("table4"), {"cub": tmp_path}, tmp_path / "out", scale=scale)
        sizes[scale] = {run.config.model.input_size for run in runs}
        for config in {run.config.model: run.config for run in runs if "hrnet" in run.method}.values():
            check_networks(config, 3)  # HRNet does not take all sizes
    assert sizes == {"cpu": {64}, "paper": {256}}


def test_an_unknown_scale_is_refused() -> None:
    with pytest.raises(InputError, match='scale "huge" is unknown'):
        scale_settings("huge")

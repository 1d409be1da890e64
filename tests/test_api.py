"""The training as a whole: what a run leaves behind, what is refused, and that interrupting it changes nothing."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

import placl
from placl.api import DESCRIBED, Result, identity, train
from placl.config import Config, load
from placl.data.load import Dataset
from placl.data.splits import Problem, make_problem
from placl.data.synthetic import write_animals
from placl.errors import InputError
from placl.learn import candidate, training
from placl.learn.label import label
from placl.learn.network import fresh_network
from placl.learn.score import score
from placl.models.weights import read_state, weights_sha256
from placl.run.folder import read_config, read_split
from placl.run.journal import key_of
from placl.watch import Level

MakeConfig = Callable[..., Config]
SETTINGS = {"data.label_fraction": 0.4, "reference": True}
FILES = {
    "config.yaml", "environment.json", "split.json", "skipped.json", "journal.jsonl", "results.csv",
    *(f"round_{r}/model.safetensors" for r in range(3)),
    "final/pseudo_labels.parquet",
    *(f"round_{r}/{name}" for r in (1, 2) for name in ("pseudo_labels.parquet", "search.csv", "curriculum.json")),
    "final/model.safetensors", "final/curriculum.json", "full/model.safetensors",
    "best/model.safetensors", "best/model.yaml",
}  # fmt: skip


@pytest.fixture(scope="module")
def result(tiny: MakeConfig, dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A run of two rounds, a finish and the yardstick that nothing interrupted."""
    return train(tiny(SETTINGS), tmp_path_factory.mktemp("whole") / "run", dataset=dataset)


def table(run: Path) -> list[dict[str, str]]:
    """results.csv but for what the clock says."""
    with open(run / "results.csv", newline="") as file:
        return [{key: value for key, value in row.items() if key != "seconds"} for row in csv.DictReader(file)]


def files_of(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


# --- what a run leaves behind


def test_the_folder_holds_what_was_done(result: Result, tiny: MakeConfig, dataset: Dataset) -> None:
    assert not FILES - files_of(result.run)
    assert not [name for name in files_of(result.run) if name.endswith((".part", ".tmp"))]
    assert read_config(result.run) == tiny(SETTINGS)
    split = read_split(result.run)
    assert split is not None
    assert [len(ids) for ids in split.roles().values()] == [16, 12, 12, 10, 10]
    assert json.loads((result.run / "skipped.json").read_text()) == {"count": 0, "images": []}


def test_results_name_every_network_and_what_it_cost(result: Result) -> None:
    rows = table(result.run)
    assert [row["stage"] for row in rows] == ["round_0", "round_1", "round_2", "final", "full"]
    assert [row["labels"] for row in rows] == ["16", "16", "16", "16", "40"]
    assert {row["val_labels"] for row in rows} == {"10"}
    assert {row["metric"] for row in rows} == {"PCK@0.1"}
    assert [row["selected"] == "" for row in rows] == [True, False, False, False, True]
    for row in rows:
        state = read_state(result.run / row["stage"] / "model.safetensors")
        assert weights_sha256(state) == row["weights_sha256"]
        assert row["images"] == str(2 * 2 * 8)


def test_the_scores_are_those_of_the_networks(result: Result, tiny: MakeConfig, dataset: Dataset) -> None:
    config, split = tiny(SETTINGS), read_split(result.run)
    assert split is not None
    net = fresh_network(config, 14, 0, torch.device("cpu"))
    net.load_state_dict(read_state(result.run / "round_1" / "model.safetensors"))
    for role in ("val", "test"):
        truth = dataset.pool.take(np.isin(dataset.pool.ids, split.roles()[role]))
        expected = score(label(net, truth, config), truth, config.reward).value
        assert result.row("round_1")[role] == pytest.approx(expected, abs=1e-4)


def test_the_last_network_is_kept_with_what_prediction_needs(result: Result, dataset: Dataset) -> None:
    kept = yaml.safe_load((result.run / "best" / "model.yaml").read_text())
    assert result.best == kept["stage"] == "final"
    assert kept["weights_sha256"] == result.row("final")["weights_sha256"]
    assert weights_sha256(read_state(result.run / "best" / "model.safetensors")) == kept["weights_sha256"]
    skeleton = dataset.pool.skeleton
    assert tuple(kept["keypoints"]) == skeleton.keypoints
    assert [tuple(pair) for pair in kept["flip_pairs"]] == list(skeleton.flip_pairs)
    assert kept["config"]["model"]["input_size"] == 32


def test_a_model_that_is_loaded_cuts_crops_as_its_training_did(result: Result) -> None:
    assert placl.load(result.run).config.view == read_config(result.run).view == 32  # whatever teachers a preset has


def test_the_gap_by_hand() -> None:
    def told(**test: float | None) -> Result:
        return Result(Path(), [{"stage": stage, "test": value} for stage, value in test.items()], "round_1", 0.0)

    assert told(round_0=50.0, round_1=65.0, full=70.0).gap_recovered == 0.75
    assert told(round_0=50.0, round_1=65.0).gap_recovered is None
    assert told(round_0=None, round_1=None, full=None).gap_recovered is None
    assert told(round_0=50.0, round_1=65.0, full=50.0).gap_recovered is None


def test_teachers_label_and_the_network_that_is_kept_is_compared(
    tiny: MakeConfig, dataset: Dataset, tmp_path: Path
) -> None:
    teacher = {"teacher.steps_per_epoch": 6, "teacher.width": 1.0, "rounds.keep": "best", "search.steps": 1}
    found = train(tiny({**SETTINGS, **teacher}), tmp_path / "run", dataset=dataset)
    rows = table(found.run)
    assert [row["stage"] for row in rows] == ["round_0", "round_1", "round_2", "final", "few", "full"]
    assert [int(row["images"]) for row in rows] == [96, 96, 96, 32, 32, 32]
    assert found.best == "final"  # whatever the teachers' scores are
    assert {name: row["stage"] for name, row in found.compared.items()} == {
        "supervised": "few", "placl": "final", "full": "full"
    }  # fmt: skip
    sizes = {
        row["stage"]: sum(t.numel() for t in read_state(found.run / row["stage"] / "model.safetensors").values())
        for row in rows
    }
    assert sizes["round_0"] == sizes["round_2"] > 2 * sizes["final"]
    assert sizes["final"] == sizes["few"] == sizes["full"]
    again = train(tiny({**SETTINGS, **teacher}), tmp_path / "run", dataset=dataset)
    assert table(again.run) == rows


def test_a_network_that_saw_other_augmentation_only_labels(tiny: MakeConfig, dataset: Dataset, tmp_path: Path) -> None:
    teacher = {"teacher.first_augment": 2.0, "augment.rotate": 20.0, "rounds.keep": "best", "search.steps": 1}
    found = train(tiny({**SETTINGS, **teacher, "reference": False}), tmp_path / "run", dataset=dataset)
    assert found.best != "round_0"  # whatever its score is; later ones are as the last


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "pl", "select.level": "keypoint", "select.rule": "soft"},
        {"preset": "paper", "method": "supervised", "teacher.epochs": 30},  # 21 groups; cpu's would be 42
    ],
)
def test_what_may_be_trained_can_be_described_and_loaded(settings: dict[str, Any]) -> None:
    config = load(None, settings)
    described = config.model_dump(mode="json", include=DESCRIBED)
    again = load(None, described)
    assert again.model_dump(include=DESCRIBED) == config.model_dump(include=DESCRIBED)


def test_crops_are_as_fine_as_the_finest_network(tiny: MakeConfig, tmp_path: Path) -> None:
    path = write_animals(tmp_path / "data", 60, 0, size=96)
    settings = {
        **{"data.labeled": [str(path)], "data.test_fraction": 0.2, "data.label_fraction": 0.5, "search.steps": 1},
        **{"data.cache": str(tmp_path / "cache"), "teacher.input_size": 64, "rounds.count": 1},
    }
    found = train(tiny(settings), tmp_path / "run")
    (crops,) = (tmp_path / "cache").rglob("*.npy")
    assert np.load(crops, mmap_mode="r").shape[1] == 96  # 64 px for the teacher, and the preset's margin of 1.5
    assert yaml.safe_load((found.run / "best" / "model.yaml").read_text())["config"]["model"]["input_size"] == 32


def test_a_network_that_went_on_is_the_last_one(tiny: MakeConfig, dataset: Dataset, tmp_path: Path) -> None:
    steps = {"train.epoch": "steps", "train.steps_per_epoch": 4, "rounds.continued": 0.5}
    config = tiny({**SETTINGS, **steps, "rounds.keep": "last", "reference": False, "search.steps": 1})
    found = train(config, tmp_path / "run", dataset=dataset)
    assert found.best == "final"
    state = read_state(found.run / "best" / "model.safetensors")
    assert weights_sha256(state) == found.row("final")["weights_sha256"]


def test_the_best_on_the_validation_set_is_kept_if_asked_for(
    tiny: MakeConfig, dataset: Dataset, tmp_path: Path
) -> None:
    config = tiny({**SETTINGS, "rounds.keep": "best", "reference": False, "search.steps": 1})
    found = train(config, tmp_path / "run", dataset=dataset)
    assert found.row(found.best)["val"] == max(row["val"] for row in found.rows)


def test_without_more_labels_there_is_no_yardstick(tiny: MakeConfig, dataset: Dataset, tmp_path: Path) -> None:
    # Real unlabelled images: the yardstick would be another training on the same labels.
    source = dataset.source.copy()
    source[16:40] = "unlabelled"
    hidden = source == "unlabelled"
    pool = replace(dataset.pool, visibility=np.where(hidden[:, None], 0, dataset.pool.visibility))
    config = tiny({"reference": True, "rounds.count": 0})
    found = train(config, tmp_path / "run", dataset=Dataset(pool, source, ()))
    assert [row["stage"] for row in found.rows] == ["round_0"]
    assert found.rows[0]["labels"] == 16
    assert found.gap_recovered is None


def test_some_more_labels_are_counted_as_some(tiny: MakeConfig, dataset: Dataset, tmp_path: Path) -> None:
    visibility = dataset.pool.visibility.copy()
    source = dataset.source.copy()
    source[30:40] = "unlabelled"  # ten images without labels beside thirty with
    visibility[30:40] = 0
    pool = replace(dataset.pool, visibility=visibility)
    config = tiny({"reference": True, "rounds.count": 0, "data.label_fraction": 0.5})
    found = train(config, tmp_path / "run", dataset=Dataset(pool, source, ()))
    assert [row["labels"] for row in found.rows] == [15, 30]


def test_folds_need_no_validation_set(tiny: MakeConfig, dataset: Dataset, tmp_path: Path) -> None:
    settings = {
        "reward.source": "folds",
        "reward.folds": 2,
        "rounds.count": 1,
        "search.steps": 1,
        "data.val_fraction": 0,
    }
    alone = dataset.source != "val"
    part = Dataset(dataset.pool.take(alone), dataset.source[alone], ())
    config = tiny({**settings, "data.label_fraction": 0.4, "rounds.finish": "last"})
    found = train(config, tmp_path / "run", dataset=part)
    assert [row["val_labels"] for row in found.rows] == [0, 0]
    assert found.best == "round_1"
    with pytest.raises(InputError, match="there is no validation set to tell the best"):
        train(config.model_copy(update={"rounds": config.rounds.model_copy(update={"keep": "best"})}),
              tmp_path / "other", dataset=part)  # fmt: skip


def test_what_was_skipped_is_said_and_kept(tiny: MakeConfig, dataset: Dataset, tmp_path: Path) -> None:
    said: list[str] = []

    class Listening:
        def progress(self, level: Level, done: float, total: float, note: str = "") -> None:
            pass

        def say(self, line: str) -> None:
            said.append(line)

    config = tiny({"rounds.count": 0, "data.label_fraction": 0.4})
    train(config, tmp_path / "run", Listening(), replace(dataset, skipped=("a.jpg: the file is empty",)))
    kept = json.loads((tmp_path / "run" / "skipped.json").read_text())
    assert kept == {"count": 1, "images": ["a.jpg: the file is empty"]}
    assert "1 unreadable unlabelled images are skipped, the first: a.jpg: the file is empty" in said
    assert said[2] == "16 labelled, 24 unlabelled, 10 validation and 10 test instances, 14 keypoints"
    assert said[3].startswith("round_0: PCK@0.1 val ")


# --- what is refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"train.batch": 32, "train.epoch": "data"},
            r"16 labelled instances are fewer than a batch of 32\. Label more, set train\.batch=16, or",
        ),
        (
            {"teacher.batch": 40, "train.epoch": "data"},
            r"16 labelled instances are fewer than a batch of 40\. Label more, set teacher\.batch=16, or",
        ),
        ({"data.label_fraction": 1.0}, r"no unlabelled image: name a folder with --unlabeled"),
        ({"model.name": "tinny"}, r'model\.name=tinny: no such network\. Did you mean "tiny"\?'),
        ({"proxy.model": "tinny"}, r'model\.name=tinny: no such network\. Did you mean "tiny"\?'),
        ({"model.init": "pretrained", "model.weights": "nowhere.safetensors"}, r"nowhere\.safetensors: no such file"),
    ],
)
def test_what_cannot_work_is_refused_and_leaves_nothing(
    tiny: MakeConfig, dataset: Dataset, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        train(tiny({**SETTINGS, **changes}), tmp_path / "run", dataset=dataset)
    assert not (tmp_path / "run").exists()  # so that the corrected command finds no other configuration there


def test_an_empty_validation_split_is_refused(tiny: MakeConfig, dataset: Dataset, tmp_path: Path) -> None:
    part = Dataset(dataset.pool, np.where(dataset.source == "val", "test", dataset.source), ())
    with pytest.raises(InputError, match=r"the validation split is empty: name a source in data\.val"):
        train(tiny({**SETTINGS, "data.val_fraction": 0}), tmp_path / "run", dataset=part)
    assert not (tmp_path / "run").exists()


def test_another_configuration_is_refused_before_the_data_is_read(
    result: Result, tiny: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placl.api.load_dataset", lambda *a, **k: pytest.fail("the data was read"))
    with pytest.raises(InputError, match=r"another configuration, says its config\.yaml \(train\.lr: "):
        train(tiny({**SETTINGS, "train.lr": 0.5}), result.run)


# --- the key of a run


def test_a_run_is_known_by_its_data_and_by_what_changes_results(
    tiny: MakeConfig, dataset: Dataset, result: Result
) -> None:
    split = read_split(result.run)
    assert split is not None
    problem = make_problem(dataset.pool, split)

    def key(on: Problem = problem, **changes: Any) -> str:
        return key_of(**identity(on, tiny({name.replace("__", "."): value for name, value in changes.items()})))

    assert key() == key(execute__workers=3, execute__where="pool", reference=True, data__cache="elsewhere")
    moved = replace(problem.labelled, keypoints=problem.labelled.keypoints + 1)
    larger = replace(problem.val, area=problem.val.area + 1)
    keys = {
        key(),
        key(seed=1),
        key(train__lr=0.5),
        key(execute__threads=2),
        key(execute__final_threads=2),
        key(execute__together=2),
        key(replace(problem, labelled=moved)),
        key(replace(problem, val=larger)),
        key(replace(problem, halves=problem.halves[::-1])),
    }
    assert len(keys) == 9


def test_a_run_whose_data_has_changed_is_not_carried_on(result: Result, tiny: MakeConfig, dataset: Dataset) -> None:
    moved = replace(dataset, pool=replace(dataset.pool, keypoints=dataset.pool.keypoints + 1))
    with pytest.raises(InputError, match=r"cannot be carried on, since the data changed after it was begun"):
        train(tiny(SETTINGS), result.run, dataset=moved)


# --- interrupted and resumed


class Killed(BaseException):
    """As sudden as a signal: nothing in the code may catch it and carry on."""


@pytest.mark.parametrize("candidates", [0, 3, 4, 7])
def test_a_run_killed_in_its_search_ends_as_if_it_had_not_been(
    result: Result, tiny: MakeConfig, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, candidates: int
) -> None:
    run_candidate = candidate.run_candidate
    calls = 0

    def mortal(*arguments: Any) -> Any:
        nonlocal calls
        if calls == candidates:
            raise Killed
        calls += 1
        return run_candidate(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(candidate, "run_candidate", mortal)
        with pytest.raises(Killed):
            train(tiny(SETTINGS), tmp_path / "run", dataset=dataset)
    with open(tmp_path / "run" / "journal.jsonl", "ab") as file:
        file.write(b'{"key": "torn off in the mid')
    counted = 0

    def counting(*arguments: Any) -> Any:
        nonlocal counted
        counted += 1
        return run_candidate(*arguments)

    monkeypatch.setattr(candidate, "run_candidate", counting)
    again = train(tiny(SETTINGS), tmp_path / "run", dataset=dataset)
    assert counted == 8 - candidates
    assert again.best == result.best
    assert table(again.run) == table(result.run)
    for name in ("round_1/search.csv", "round_2/search.csv", "final/curriculum.json", "best/model.yaml", "split.json"):
        assert (again.run / name).read_bytes() == (result.run / name).read_bytes()


@pytest.mark.parametrize("trainings", [0, 2, 4])
def test_a_run_killed_in_a_training_ends_as_if_it_had_not_been(
    result: Result, tiny: MakeConfig, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trainings: int
) -> None:
    inner_loop = training.inner_loop_distributed
    calls = 0

    def mortal(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > trainings:
            raise Killed
        return inner_loop(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(training, "inner_loop_distributed", mortal)
        with pytest.raises(Killed):
            train(tiny(SETTINGS), tmp_path / "run", dataset=dataset)
    again = train(tiny(SETTINGS), tmp_path / "run", dataset=dataset)
    assert table(again.run) == table(result.run)


def test_running_a_finished_run_again_trains_nothing(
    result: Result, tiny: MakeConfig, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = table(result.run)
    monkeypatch.setattr(training, "inner_loop_distributed", lambda *a, **k: pytest.fail("a network was trained"))
    monkeypatch.setattr(candidate, "run_candidate", lambda *a, **k: pytest.fail("a candidate was trained"))
    again = train(tiny(SETTINGS), result.run, dataset=dataset)
    assert table(again.run) == before
    assert again.rows == result.rows


def test_changed_labels_in_a_finished_run_are_trained_on(tiny: MakeConfig, dataset: Dataset, tmp_path: Path) -> None:
    # The split stays, units are known by their inputs: what the change does not touch is kept, the rest is run.
    config = tiny({"reference": True, "rounds.count": 0, "data.label_fraction": 0.4})
    first = train(config, tmp_path / "run", dataset=dataset)
    split = read_split(first.run)
    assert split is not None
    keypoints = dataset.pool.keypoints.copy()
    keypoints[np.isin(dataset.pool.ids, split.half_1)] += 1
    again = train(config, first.run, dataset=replace(dataset, pool=replace(dataset.pool, keypoints=keypoints)))
    assert again.row("round_0")["weights_sha256"] == first.row("round_0")["weights_sha256"]
    assert again.row("full")["weights_sha256"] != first.row("full")["weights_sha256"]


def test_a_run_is_the_same_from_any_folder(tmp_path: Path, tiny: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    write_animals(tmp_path / "data", 40, seed=0, size=48)
    monkeypatch.setenv("PLACL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path / "data")
    settings = {"rounds.count": 0, "data.test_fraction": 0.2, "data.label_fraction": 0.5}
    train(tiny({**settings, "data.labeled": "annotations.json"}), tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    assert placl.evaluate(tmp_path / "run").instances == 8
    train(tiny({**settings, "data.labeled": "data/annotations.json"}), Path("run"))  # carries on

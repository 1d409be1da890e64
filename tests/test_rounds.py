"""Algorithm 2: who labels what, what is trained on it, what the next search starts from, and the paper's structure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placl import config as configuration
from placl import rounds, stages
from placl.api import train
from placl.checks import check, check_heads
from placl.config import Config
from placl.curriculum.curriculum import Curriculum
from placl.curriculum.searcher import Searcher, make_searcher
from placl.data.load import Dataset
from placl.data.pool import Pool
from placl.data.splits import Problem
from placl.data.synthetic import animals
from placl.errors import InputError, MachineError
from placl.execute.serial import SerialExecutor
from placl.lab import Lab
from placl.learn import training
from placl.learn.candidate import Outcome, Task
from placl.learn.course import TrainingSet
from placl.learn.inner_loop import Trained
from placl.learn.pseudo_labels import PseudoLabels
from placl.models.weights import weights_bytes, weights_sha256
from placl.rounds import placl, stage_configs
from placl.run.folder import RunFolder
from placl.stages import Unit, train_side_by_side
from placl.watch import Level, Silent

MakeConfig = Callable[..., Config]
MakeLab = Callable[..., Lab]


class Pretending:
    """An executor that trains no candidate: thresholds of 0.3 are best. It keeps the tasks it was given."""

    workers = 1

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def run(self, task: Any, jobs: dict[int, Any], on_done: Any, on_progress: Any) -> None:
        if not isinstance(task, Task):
            return SerialExecutor().run(task, jobs, on_done, on_progress)
        self.tasks.append(task)
        for number, job in jobs.items():
            on_done(number, Outcome(-float(((job.curriculum.array - 0.3) ** 2).sum()), 1, (1.0,)))
        return None

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Spies:
    """What the rounds did, in order."""

    labelled: list[tuple[tuple[str, ...], str]]  # ids, and the network that labelled them
    trained: list[tuple[TrainingSet, Curriculum, int]]
    bases: list[np.ndarray]


@pytest.fixture
def spies(monkeypatch: pytest.MonkeyPatch) -> Spies:
    found = Spies([], [], [])
    label_with, inner_loop = stages.label_with, training.inner_loop_distributed

    def spy_label(executor: Any, net: Any, pool: Pool, config: Config, *, model: str, **more: Any) -> PseudoLabels:
        assert model == weights_sha256(net)
        found.labelled.append((pool.ids, model))
        return label_with(executor, net, pool, config, model=model, **more)

    def spy_loop(config: Config, data: TrainingSet, curriculum: Curriculum, seed: int, **rest: Any) -> Trained:
        found.trained.append((data, curriculum, seed))
        return inner_loop(config, data, curriculum, seed, **rest)

    def spy_searcher(settings: Any, base: np.ndarray, seed: int) -> Searcher:
        found.bases.append(base)
        return make_searcher(settings, base, seed)

    monkeypatch.setattr(stages, "label_with", spy_label)
    monkeypatch.setattr(training, "inner_loop_distributed", spy_loop)
    monkeypatch.setattr(rounds, "make_searcher", spy_searcher)
    return found


def ids_of(data: TrainingSet) -> tuple[str, ...]:
    return data.unlabelled.ids if data.unlabelled is not None else ()


def test_cross_training_alternates_between_halves(
    tiny: MakeConfig, make_lab: MakeLab, problem: Problem, spies: Spies
) -> None:
    config = tiny({"rounds.count": 3, "rounds.finish": "both"})
    executor = Pretending()
    stages = list(placl(make_lab(config, executor=executor)))
    assert [stage.name for stage in stages] == ["round_0", "round_1", "round_2", "round_3", "final"]
    first, second = (half.ids for half in problem.halves)
    theta = [stage.sha256 for stage in stages]
    assert len(set(theta)) == 5
    # Theta^{r-1} labels D_u^(1) in odd rounds and D_u^(2) in even ones; Theta^3 labels the half it never saw.
    assert spies.labelled == [(first, theta[0]), (second, theta[1]), (first, theta[2]), (second, theta[3])]
    assert [ids_of(data) for data, _, _ in spies.trained] == [(), first, second, first, first + second]
    # No network labels what it was trained on.
    for ids, model in spies.labelled:
        data = spies.trained[theta.index(model)][0]
        assert not set(ids) & set(ids_of(data))
    assert [task.data for task in executor.tasks[::2]] == [data for data, _, _ in spies.trained[1:4]]


def test_the_finish_keeps_the_labels_of_the_one_half_and_makes_those_of_the_other(
    tiny: MakeConfig, make_lab: MakeLab, spies: Spies
) -> None:
    stages = list(placl(make_lab(tiny(), executor=Pretending())))
    last, (data, curriculum, _) = spies.trained[-2][0], spies.trained[-1]
    assert data.pseudo is not None
    assert last.pseudo is not None
    assert data.pseudo.model == f"{stages[1].sha256}+{stages[2].sha256}"
    np.testing.assert_array_equal(data.pseudo.keypoints[:12], last.pseudo.keypoints)
    np.testing.assert_array_equal(data.pseudo.confidence[:12], last.pseudo.confidence)
    assert len(data.pseudo.keypoints) == 24
    assert curriculum == stages[2].curriculum == stages[3].curriculum


@pytest.mark.parametrize(
    ("settings", "teachers", "kept"),
    [
        ({"rounds.count": 0}, [], "round_0"),
        ({"rounds.count": 1, "rounds.finish": "last"}, ["round_0"], "round_1"),
        ({"rounds.count": 1, "rounds.finish": "both"}, ["round_0", "round_1"], "final"),
        ({"rounds.count": 1, "rounds.finish": "both", "rounds.cross_training": False}, ["round_0"], "round_1"),
    ],
)
def test_all_networks_but_the_last_are_teachers(
    tiny: MakeConfig, settings: dict[str, Any], teachers: list[str], kept: str
) -> None:
    config = tiny({**settings, "teacher.epochs": 6, "train.milestones": [1]})
    taught = config.taught()
    assert (taught.train.epochs, taught.train.milestones) == (6, (3,))
    assert stage_configs(config) == {**dict.fromkeys(teachers, taught), kept: config}
    assert stage_configs(tiny(settings)) == dict.fromkeys([*teachers, kept], tiny(settings))


def test_trainings_go_on_from_the_network_that_labelled(tiny: MakeConfig, make_lab: MakeLab, spies: Spies) -> None:
    settings = {"rounds.count": 2, "rounds.finish": "both", "train.epoch": "steps", "train.steps_per_epoch": 4}
    config = tiny({**settings, "rounds.continued": 0.5})
    executor = Pretending()
    stages = list(placl(make_lab(config, executor=executor)))
    theta = [weights_bytes(stage.net) for stage in stages]
    assert [data.start for data, _, _ in spies.trained] == [None, *theta[:-1]]
    assert [task.data.start for task in executor.tasks[::2]] == theta[:2]
    assert [stage.config.train.steps_per_epoch for stage in stages] == [4, 2, 2, 2]
    assert {task.config.train.steps_per_epoch for task in executor.tasks} == {2}
    assert [stage.images for stage in stages] == [stages[0].images] + [stages[0].images // 2] * 3
    afresh = list(placl(make_lab(tiny(settings), "afresh", executor=Pretending())))
    assert afresh[0].sha256 == stages[0].sha256
    assert afresh[1].sha256 != stages[1].sha256


@pytest.mark.parametrize("finish", ["last", "both"])
def test_without_cross_training_everyone_is_labelled_every_round(
    tiny: MakeConfig, make_lab: MakeLab, problem: Problem, spies: Spies, finish: str
) -> None:
    config = tiny({"rounds.cross_training": False, "rounds.finish": finish})
    stages = list(placl(make_lab(config, executor=Pretending())))
    assert [stage.name for stage in stages] == ["round_0", "round_1", "round_2"]
    everyone = problem.halves[0].ids + problem.halves[1].ids
    assert [ids for ids, _ in spies.labelled] == [everyone, everyone]
    assert [ids_of(data) for data, _, _ in spies.trained] == [(), everyone, everyone]


def test_the_first_base_is_zero_and_the_next_the_last_winner(tiny: MakeConfig, make_lab: MakeLab, spies: Spies) -> None:
    stages = list(placl(make_lab(tiny({"rounds.count": 3}), executor=Pretending())))
    assert spies.bases[0].tolist() == [0.0, 0.0]  # (Gamma^0)*
    for r in (1, 2):
        curriculum = stages[r].curriculum
        assert curriculum is not None
        np.testing.assert_array_equal(spies.bases[r], curriculum.array)
    assert [c for _, c, _ in spies.trained[1:4]] == [stage.curriculum for stage in stages[1:4]]


def test_every_training_starts_from_weights_and_draws_of_its_own(
    tiny: MakeConfig, make_lab: MakeLab, spies: Spies
) -> None:
    list(placl(make_lab(tiny(), executor=Pretending())))
    assert len({seed for _, _, seed in spies.trained}) == 4


def test_no_rounds_is_supervised_training(tiny: MakeConfig, make_lab: MakeLab, spies: Spies) -> None:
    (stage,) = placl(make_lab(tiny({"rounds.count": 0})))
    assert stage.name == "round_0"
    assert stage.curriculum is None
    assert spies.labelled == []


def test_a_stage_that_is_in_the_journal_is_read(tiny: MakeConfig, make_lab: MakeLab, spies: Spies) -> None:
    config = tiny({"rounds.count": 1, "rounds.finish": "last"})
    first = list(placl(make_lab(config, executor=Pretending())))
    executor = Pretending()
    lab = make_lab(config, executor=executor)
    again = list(placl(lab))
    assert len(spies.trained) == 2
    assert executor.tasks == []
    facts = [(s.name, s.sha256, s.val, s.curriculum, s.selected, s.images) for s in first]
    assert [(s.name, s.sha256, s.val, s.curriculum, s.selected, s.images) for s in again] == facts
    # A lost or damaged file is trained again, to the same bits.
    (lab.run.path / "round_1" / "model.safetensors").write_bytes(b"rubbish")
    healed = list(placl(make_lab(config, executor=executor)))
    assert len(spies.trained) == 3
    assert healed[1].sha256 == first[1].sha256


def test_a_training_that_diverges_ends_the_run(tiny: MakeConfig, make_lab: MakeLab) -> None:
    config = tiny({"train.lr": 1e9, "train.loss": "mse", "train.epochs": 40, "train.optimizer": "adam"})
    with pytest.raises(MachineError, match=r"round_0: the loss is no longer a finite number\. Lower train\.lr"):
        list(placl(make_lab(config)))


def test_progress_reaches_its_end(tiny: MakeConfig, make_lab: MakeLab) -> None:
    seen: dict[Level, tuple[float, float]] = {}

    class Watching:
        def progress(self, level: Level, done: float, total: float, note: str = "") -> None:
            assert 0 <= done <= total
            seen[level] = done, total

        def say(self, line: str) -> None:
            pass

    for out, changes in (
        ("both", {}),
        ("plain", {"rounds.cross_training": False}),
        ("last", {"rounds.finish": "last"}),
    ):
        seen.clear()
        list(placl(make_lab(tiny(changes), out=out, executor=Pretending(), watch=Watching())))
        assert {"run", "round", "step", "candidate", "epoch", "label"} <= set(seen)
        for level, (done, total) in seen.items():
            assert done == pytest.approx(total), (out, level)


def test_epochs_of_trainings_side_by_side_are_counted_together(
    tiny: MakeConfig, make_lab: MakeLab, problem: Problem
) -> None:
    seen: list[tuple[Level, float, float, str]] = []

    class Watching(Silent):
        def progress(self, level: Level, done: float, total: float, note: str = "") -> None:
            seen.append((level, done, total, note))

    config = tiny()
    units = [Unit(name, config, TrainingSet(problem.labelled)) for name in ("few", "full")]
    stages = train_side_by_side(make_lab(config, watch=Watching()), units)
    assert [stage.name for stage in stages] == ["few", "full"]
    assert [line[1:] for line in seen if line[0] == "epoch"] == [(done, 4, "few, full") for done in (1, 2, 3, 4)]


# --- what is refused before anything is trained


def test_fewer_labels_than_a_batch(tiny: MakeConfig, problem: Problem) -> None:
    with pytest.raises(
        InputError,
        match=r"16 labelled instances are fewer than a batch of 17\. Label more, set train\.batch=16, "
        r"or set train\.epoch=steps\.",
    ):
        check(problem, tiny({"train.batch": 17, "train.epoch": "data"}))
    check(problem, tiny({"train.batch": 16, "train.epoch": "data"}))
    check(problem, tiny({"train.batch": 17}))


def test_fewer_labelled_images_than_folds(tiny: MakeConfig, problem: Problem) -> None:
    folds = {"reward.source": "folds", "rounds.keep": "last", "train.batch": 1, "train.labelled_share": None}
    check(problem, tiny({**folds, "reward.folds": 16}))
    with pytest.raises(InputError, match=r"16 labelled images make no 17 folds\. Label more or set reward\.folds=16"):
        check(problem, tiny({**folds, "reward.folds": 17}))
    with pytest.raises(InputError, match=r"reward\.source=folds needs at least 2 labelled images"):
        check(replace(problem, labelled=problem.labelled.take(np.arange(1))), tiny(folds))


def test_no_unlabelled_image(tiny: MakeConfig, problem: Problem) -> None:
    nobody = problem.halves[0].take(np.zeros(0, np.int64))
    none, one = replace(problem, halves=(nobody, nobody)), replace(problem, halves=(problem.halves[0], nobody))
    with pytest.raises(InputError, match="no unlabelled image: name a folder with --unlabeled"):
        check(none, tiny())
    check(none, tiny({"rounds.count": 0}))
    with pytest.raises(InputError, match="one unlabelled instance makes no two halves"):
        check(one, tiny())
    check(one, tiny({"rounds.cross_training": False}))
    check(one, tiny({"rounds.count": 1}))


def test_the_best_cannot_be_told_without_a_validation_set(tiny: MakeConfig, problem: Problem) -> None:
    bare = replace(problem, val=problem.val.take(np.zeros(0, np.int64)))
    with pytest.raises(InputError, match=r"rounds\.keep=best: there is no validation set"):
        check(bare, tiny({"rounds.keep": "best", "reward.source": "folds"}))
    check(bare, tiny({"rounds.keep": "last", "reward.source": "folds"}))


def test_heads_that_pckh_needs(tiny: MakeConfig, problem: Problem) -> None:
    def with_heads(pool: Pool, *unknown: int) -> Pool:
        head = np.full(len(pool), 5, np.float32)
        head[list(unknown)] = np.nan
        return replace(pool, head=head)

    config = tiny({"reward.metric": "pckh", "reward.alpha": 0.5})
    labelled, val = with_heads(problem.labelled), with_heads(problem.val)
    for bare in (problem, replace(problem, val=with_heads(problem.val, 3))):
        with pytest.raises(InputError, match=r"^reward\.metric=pckh: .* validation .* have no head size.*=pck\.$"):
            check(bare, config)
    check(replace(problem, val=val), config)
    folds = tiny({"reward.metric": "pckh", "reward.source": "folds", "rounds.keep": "last"})
    with pytest.raises(InputError, match=r"16 of the 16 labelled instances have no head size"):
        check(replace(problem, val=val), folds)
    check(replace(problem, labelled=labelled, val=val), folds)
    unlabelled = replace(val.without_labels(), skeleton=val.skeleton)
    check_heads(unlabelled, "test", config)  # nothing to score: nothing is needed
    check_heads(problem.val, "test", tiny())


def test_a_test_set_without_heads_is_refused_before_there_is_a_run(
    tiny: MakeConfig, pool: Pool, tmp_path: Path
) -> None:
    head = np.full(len(pool), 5, np.float32)
    head[50:] = np.nan
    data = Dataset(replace(pool, head=head), np.repeat(["labelled", "val", "test"], [40, 10, 10]), ())
    config = tiny({"reward.metric": "pckh", "data.label_fraction": 0.5})
    with pytest.raises(InputError, match=r"10 of the 10 test instances have no head size"):
        train(config, tmp_path / "run", dataset=data)
    assert not (tmp_path / "run").exists()


# --- the paper's structure


def test_a_run_of_the_papers_structure(one_conv: str, tmp_path: Path, spies: Spies) -> None:
    """R = 6, T = 16, M = 8 and N_G = 21 with a toy network: every line of Algorithm 2, 768 candidates, 7 trainings.

    Every threshold counts: candidates have as many epochs as there are groups, of one step each.
    """
    small = {
        "model.name": one_conv,
        "model.input_size": 16,
        "train.epochs": 21,
        "train.milestones": [17, 20],
        "train.batch": 4,
        "search.group_size": 1,
        "search.updates": 2,
        "proxy.epochs": 21,
        "data.label_fraction": 0.5,
        "execute.where": "serial",
        "execute.final_threads": 1,
        "execute.device": "cpu",
    }
    config = configuration.load(None, {"preset": "paper", **small})
    assert (config.rounds.count, config.search.steps, config.search.samples, config.groups) == (6, 16, 8, 21)
    source = np.repeat(["labelled", "val"], [8, 4])  # 4 labelled, two halves of 2, 4 for validation
    result = train(config, tmp_path / "run", dataset=Dataset(animals(12, 0, size=16), source, ()))

    lines = [json.loads(line) for line in (tmp_path / "run" / "journal.jsonl").read_text().splitlines()]
    units = [line for line in lines if line["kind"] in ("candidate", "training")]
    assert Counter(unit["kind"] for unit in units) == {"candidate": 6 * 16 * 8, "training": 7}
    assert len({unit["key"] for unit in units}) == 6 * 16 * 8 + 7
    assert [row["stage"] for row in result.rows] == [f"round_{r}" for r in range(7)]
    assert len({row["weights_sha256"] for row in result.rows}) == 7
    assert result.best == "round_6"

    halves = [ids for ids, _ in spies.labelled]
    assert len(halves) == 6
    assert halves == [halves[0], halves[1]] * 3
    assert [model for _, model in spies.labelled] == [row["weights_sha256"] for row in result.rows[:6]]
    assert spies.bases[0].tolist() == [0.0] * 21
    for r in range(1, 7):
        kept = json.loads((tmp_path / "run" / f"round_{r}" / "curriculum.json").read_text())["thresholds"]
        assert spies.trained[r][1].thresholds == tuple(kept)
        if r < 6:
            assert spies.bases[r].tolist() == kept
    for unit in units:
        if unit["kind"] == "candidate":
            assert len(unit["outcome"]["selected"]) == 21
        elif unit["name"] != "round_0":
            assert len(unit["selected"]) == 21
    assert isinstance(result.rows[6]["val"], float)


def test_full_trainings_take_every_gpu_from_this_process(
    tiny: MakeConfig, make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crew(SerialExecutor):
        closed = 0

        def run(self, *arguments: Any) -> None:
            raise AssertionError("a worker sees one GPU")

        def close(self) -> None:
            self.closed += 1

    monkeypatch.setattr(stages, "devices_for", lambda config: ["cuda:0", "cuda:1"])
    lab = make_lab(tiny({"execute.where": "pool"}), executor=Crew())
    unit = Unit("round_0", lab.config, TrainingSet(lab.problem.labelled))
    assert stages.train_stage(lab, unit).images == 2 * 2 * 8
    assert lab.executor.closed == 1


def test_a_searched_finish_starts_from_the_last_curriculum(tiny: MakeConfig, make_lab: MakeLab, spies: Spies) -> None:
    executor = Pretending()
    found = list(placl(make_lab(tiny({"rounds.finish": "search"}), executor=executor)))
    assert [stage.name for stage in found] == ["round_0", "round_1", "round_2", "final"]
    assert found[2].curriculum is not None
    np.testing.assert_array_equal(spies.bases[2], found[2].curriculum.array)
    assert executor.tasks[-1].data == spies.trained[-1][0]  # both halves


WHOLE = {"search.pick": "best", "rounds.finish": "search", "rounds.count": 1}  # candidates are full trainings


def trained_names(lab: Lab) -> list[str]:
    return [unit["name"] for unit in lab.run.journal.units.values() if unit["kind"] == "training"]


def test_a_winner_that_is_trained_already_is_not_trained_again(
    tiny: MakeConfig, make_lab: MakeLab, spies: Spies
) -> None:
    lab = make_lab(tiny(WHOLE))
    found = list(placl(lab))
    assert len(spies.trained) == 1  # round 0
    assert trained_names(lab) == ["round_0", "round_1", "final"]
    candidates = [unit for unit in lab.run.journal.units.values() if unit["kind"] == "candidate"]
    rewards = [unit["outcome"]["reward"] for unit in candidates]
    assert [stage.val.value for stage in found[1:]] == [max(rewards[:4]), max(rewards[4:])]  # T x M in each search
    assert not list(lab.run.path.rglob("candidate.*"))


@pytest.mark.parametrize("damage", ["removed", "changed"])
def test_a_winner_whose_file_is_lost_is_trained_again_to_the_same_bits(
    tiny: MakeConfig, make_lab: MakeLab, spies: Spies, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    expected = [stage.sha256 for stage in placl(make_lab(tiny(WHOLE)))]
    keep = RunFolder.keep_candidate

    def damaging(self: RunFolder, name: str, key: str, outcome: Outcome) -> None:
        keep(self, name, key, outcome)
        file = self.path / name / "candidate.safetensors"
        if damage == "removed":
            file.unlink(missing_ok=True)
        else:
            file.write_bytes(file.read_bytes()[:-1] + b"!")

    monkeypatch.setattr(RunFolder, "keep_candidate", damaging)
    before = len(spies.trained)
    assert [stage.sha256 for stage in placl(make_lab(tiny(WHOLE), "again"))] == expected
    assert len(spies.trained) - before == 3


@pytest.mark.parametrize(
    "change",
    [{"search.pick": "mean"}, {"proxy.steps_per_epoch": 1}, {"teacher.epochs": 4}, {"search.searcher": "constant"}],
)
def test_a_winner_is_trained_by_itself_where_candidates_are_something_else(
    tiny: MakeConfig, change: dict[str, Any]
) -> None:
    assert tiny(WHOLE).winner_is_trained
    assert not tiny({**WHOLE, **change}).winner_is_trained
    continued = {**WHOLE, "train.epoch": "steps", "train.steps_per_epoch": 8, "rounds.continued": 0.5}
    assert tiny(continued).winner_is_trained
    assert not tiny({**continued, **change}).winner_is_trained


@pytest.mark.parametrize(
    ("change", "found"),
    [({}, {"round_1", "final"}), ({"rounds.finish": "both"}, {"round_1"}), ({"search.pick": "mean"}, set())],
)
def test_what_the_search_has_trained(tiny: MakeConfig, change: dict[str, Any], found: set[str]) -> None:
    assert rounds.found_by_search(tiny({**WHOLE, **change})) == found

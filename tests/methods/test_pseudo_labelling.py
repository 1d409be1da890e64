"""``supervised``, ``pl`` and ``cl``: what they train on, round by round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from placl.config import Config
from placl.curriculum.curriculum import Curriculum
from placl.data.splits import Problem
from placl.lab import Lab
from placl.learn import training
from placl.learn.course import TrainingSet
from placl.learn.inner_loop import Trained
from placl.learn.select import Selection
from placl.methods.cl import SHARES, by_percentile, cl
from placl.methods.method import PLACES, method_of
from placl.methods.pl import pl
from placl.methods.supervised import supervised

MakeConfig = Callable[..., Config]
MakeLab = Callable[..., Lab]
Seen = list[tuple[Config, TrainingSet, Curriculum]]


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """What was trained on, in order."""
    seen: Seen = []
    inner_loop = training.inner_loop_distributed

    def spy(config: Config, data: TrainingSet, curriculum: Curriculum, seed: int, **rest: Any) -> Trained:
        seen.append((config, data, curriculum))
        return inner_loop(config, data, curriculum, seed, **rest)

    monkeypatch.setattr(training, "inner_loop_distributed", spy)
    return seen


def test_supervised_sees_labels_alone(tiny: MakeConfig, make_lab: MakeLab, problem: Problem, trained: Seen) -> None:
    (stage,) = supervised(make_lab(tiny({"method": "supervised"})))
    ((_, data, _),) = trained
    assert (data.labelled.ids, data.unlabelled, data.pseudo) == (problem.labelled.ids, None, None)
    assert (stage.name, stage.images) == ("round_0", 2 * 2 * 8)


def test_pl_uses_every_pseudo_label_once(tiny: MakeConfig, make_lab: MakeLab, problem: Problem, trained: Seen) -> None:
    first, second = pl(make_lab(tiny({"method": "pl"})))
    data, curriculum = trained[1][1:]
    assert data.unlabelled is not None
    assert data.pseudo is not None
    assert data.unlabelled.ids == problem.unlabelled.ids  # both halves: there is no cross-training
    assert data.pseudo.model == first.sha256
    assert set(curriculum.thresholds) == {0.0}
    assert second.selected[0] > 0.9  # on the quantile scale, all but ties at the bottom


def test_pl_takes_a_threshold(tiny: MakeConfig, make_lab: MakeLab, trained: Seen) -> None:
    settings = {"method": "pl", "search.searcher": "constant", "search.initial": 0.4, "select.level": "instance"}
    *_, last = pl(make_lab(tiny(settings)))
    assert set(trained[1][2].thresholds) == {0.4}
    assert last.selected == pytest.approx((0.6, 0.6), abs=0.03)  # ranks: 24 instances


def test_cl_takes_the_surest_fifths_and_relabels_everything(
    tiny: MakeConfig, make_lab: MakeLab, problem: Problem, trained: Seen
) -> None:
    stages = list(cl(make_lab(tiny({"method": "cl"}))))
    assert [stage.name for stage in stages] == [f"round_{r}" for r in range(6)]
    for r, (config, data, curriculum) in enumerate(trained[1:], 1):
        assert data.pseudo is not None
        assert data.unlabelled is not None
        assert data.pseudo.model == stages[r - 1].sha256  # labelled by the round before
        assert data.unlabelled.ids == problem.unlabelled.ids
        assert curriculum.thresholds == (pytest.approx(1 - SHARES[r - 1]),) * 2
        assert (config.select.level, config.select.scale) == ("instance", "quantile")
    assert [stage.selected[0] for stage in stages[1:]] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0], abs=0.03)


def test_percentiles_are_of_whole_instances(tiny: MakeConfig) -> None:
    confidence = np.array([[0.9, 0.1], [0.6, 0.6], [0.2, 0.1], [0.8, 0.7], [0.3, 0.3]], np.float32)
    selection = Selection(confidence, by_percentile(tiny()).select)
    assert selection.members(1 - 0.2).tolist() == [3]  # means 0.5, 0.6, 0.15, 0.75, 0.3
    assert selection.members(1 - 0.6).tolist() == [0, 1, 3]
    assert selection.members(1 - 1.0).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", PLACES)
def test_every_method_says_what_it_will_train(tiny: MakeConfig, make_lab: MakeLab, name: str) -> None:
    config = tiny({"method": name, "search.searcher": "constant", "search.initial": 0.3})
    method = method_of(config)
    lab = make_lab(config)
    found = {stage.name: (stage.config.model, stage.config.train) for stage in method.run(lab)}
    assert found == {stage: (own.model, own.train) for stage, own in method.stages(config).items()}


@pytest.mark.parametrize("name", ["pl", "cl", "placl"])
def test_networks_that_only_label_are_teachers(tiny: MakeConfig, name: str) -> None:
    config = tiny({"method": name, "teacher.steps_per_epoch": 1})
    *before, last = method_of(config).stages(config).values()
    assert {own.train.steps_per_epoch for own in before} == {1}
    assert last.train == config.train

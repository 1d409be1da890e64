"""A candidate: its reward is the score of its network, on the validation set or on what its fold left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from placl.config import Config
from placl.curriculum.curriculum import Curriculum
from placl.data.pool import Pool
from placl.data.splits import Problem
from placl.learn.candidate import Outcome, Task, make_folds, outcome_of, run_candidate
from placl.learn.course import TrainingSet
from placl.learn.inner_loop import inner_loop
from placl.learn.label import label
from placl.learn.pseudo_labels import PseudoLabels
from placl.metrics import pck

MakeConfig = Callable[..., Config]
GAMMA = Curriculum((0.5, 0.2))


@pytest.fixture
def task(tiny: MakeConfig, problem: Problem, pool: Pool) -> Task:
    half = problem.halves[0]
    pseudo = PseudoLabels(pool.keypoints[16:28], np.full((12, 14), 0.5, np.float32), "m")
    return Task(tiny(), TrainingSet(problem.labelled, half, pseudo), problem.val)


def with_folds(task: Task, folds: int, **changes: object) -> Task:
    reward = task.config.reward.model_copy(update={"source": "folds", "folds": folds})
    return replace(task, config=task.config.model_copy(update={"reward": reward, **changes}))


def test_the_reward_is_the_networks_score(task: Task) -> None:
    outcome = run_candidate(task, GAMMA, seed=5)
    trained = inner_loop(task.config, task.data, GAMMA, 5)
    found = label(trained.net, task.val, task.config).keypoints
    right = np.linalg.norm(found - task.val.keypoints, axis=2) <= 0.1 * task.val.length[:, None]
    counted = task.val.visibility > 0
    assert outcome.reward == pytest.approx(100 * (right & counted).sum() / counted.sum())
    assert outcome.reward == pck(found, task.val.keypoints, task.val.visibility, task.val.length, 0.1).overall
    assert outcome.images == trained.images
    assert outcome.selected == trained.selected


def test_a_candidate_is_a_pure_function(task: Task) -> None:
    assert run_candidate(task, GAMMA, seed=5) == run_candidate(task, GAMMA, seed=5)


def test_folds_hold_out_every_labelled_instance_once(task: Task) -> None:
    folds = make_folds(with_folds(task, 3))
    assert len(folds) == 3
    held_out = [name for _, truth in folds for name in truth.ids]
    assert sorted(held_out) == sorted(task.data.labelled.ids)
    for data, truth in folds:
        assert set(data.labelled.ids) == set(task.data.labelled.ids) - set(truth.ids)
        assert data.unlabelled is task.data.unlabelled
        assert truth.labelled.all()
    again = make_folds(with_folds(task, 3))
    assert [truth.ids for _, truth in again] == [truth.ids for _, truth in folds]
    other = make_folds(with_folds(task, 3, seed=1))
    assert [truth.ids for _, truth in other] != [truth.ids for _, truth in folds]


def test_folds_never_divide_an_image(task: Task) -> None:
    labelled = replace(task.data.labelled, image=np.arange(16) // 3)
    folds = make_folds(with_folds(replace(task, data=replace(task.data, labelled=labelled)), 3))
    homes = Counter(image for _, truth in folds for image in set(truth.image.tolist()))
    assert set(homes.values()) == {1}
    assert sorted(name for _, truth in folds for name in truth.ids) == sorted(labelled.ids)


def test_folds_hold_out_what_is_unlabelled_in_their_images(task: Task) -> None:
    assert task.data.unlabelled is not None
    beside = np.array([*task.data.labelled.image[:4], *task.data.unlabelled.image[4:]])  # four share an image
    unlabelled = replace(task.data.unlabelled, image=beside)
    confidence = np.repeat(np.arange(12, dtype=np.float32)[:, None] / 12, 14, axis=1)
    pseudo = PseudoLabels(np.zeros((12, 14, 2), np.float32), confidence, "m")
    data = replace(task.data, unlabelled=unlabelled, pseudo=pseudo)
    found = 0
    for part, truth in make_folds(with_folds(replace(task, data=data), 3)):
        assert part.unlabelled is not None
        assert part.pseudo is not None
        assert not set(part.unlabelled.image.tolist()) & set(truth.image.tolist())
        stays = ~np.isin(beside, truth.image)
        assert part.unlabelled.ids == unlabelled.take(np.flatnonzero(stays)).ids
        assert np.array_equal(part.pseudo.confidence, confidence[stays])
        found += int((~stays).sum())
    assert found == 4


def test_a_network_that_is_not_finite_is_worth_nothing(task: Task) -> None:
    trained = inner_loop(task.config, task.data, GAMMA, 5)
    assert outcome_of(replace(task, keep=True), trained, 50.0).weights is not None
    lost = outcome_of(replace(task, keep=True), replace(trained, diverged=True), 50.0)
    assert (lost.reward, lost.weights) == (0.0, None)


def test_the_reward_of_folds_weighs_them_by_their_keypoints(task: Task) -> None:
    folded = with_folds(task, 2)
    progress: list[tuple[int, int]] = []
    outcome = run_candidate(folded, GAMMA, 5, lambda done, total: progress.append((done, total)))
    right, counted, images = 0.0, 0, 0
    for data, truth in make_folds(folded):
        trained = inner_loop(folded.config, data, GAMMA, 5)
        found = label(trained.net, truth, folded.config).keypoints
        score = pck(found, truth.keypoints, truth.visibility, truth.length, 0.1)
        right += score.overall * score.counted.sum()
        counted += int(score.counted.sum())
        images += trained.images
    assert outcome.reward == pytest.approx(right / counted)
    assert outcome.images == images
    assert progress == [(n, 4) for n in (1, 2, 3, 4)]
    assert folded.cost == 4


def test_a_validation_set_without_labels_is_worth_nothing(task: Task) -> None:
    assert run_candidate(replace(task, val=task.val.without_labels()), GAMMA, 5).reward == 0.0


def test_an_outcome_survives_json() -> None:
    outcome = Outcome(71.25, 640, (0.5, 0.25))
    assert Outcome.from_dict(outcome.to_dict()) == outcome

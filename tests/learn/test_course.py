"""The batches of a training: everyone in turn, whoever else is selected, and however many processes share them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from placl import config as configuration
from placl.config import Config
from placl.curriculum.curriculum import Curriculum
from placl.data.pool import Pool
from placl.learn.course import Course, Crops, TrainingSet, batches, learning_rate

MakeConfig = Callable[..., Config]
CPU = torch.device("cpu")


# --- the course


def test_pseudo_labels_count_where_they_are_selected(tiny: MakeConfig, data: TrainingSet) -> None:
    config = tiny({"select.level": "keypoint", "augment.flip": 0.0, "train.labelled_share": None, "train.batch": 36})
    course = Course(config, data, Curriculum((0.0, 0.5)), 1, CPU, 4)
    course.begin(0)
    assert course.selected == [1.0]
    keypoints, weights = course._labels(np.array([35, 3, 16, 26]))
    assert weights[0].all()
    assert weights[1].tolist() == (data.labelled.visibility[3] > 0).tolist()
    assert keypoints[1].tolist() == data.labelled.keypoints[3].tolist()
    assert data.pseudo is not None
    assert keypoints[2].tolist() == data.pseudo.keypoints[0].tolist()
    course.begin(config.train.epochs - 1)
    assert course.selected == [1.0, pytest.approx(0.5 * (data.pseudo.confidence[0] > 0.5).mean())]
    _, weights = course._labels(np.array([35, 3, 16, 26]))
    assert not weights[[0, 3]].any()
    assert weights[2].tolist() == (data.pseudo.confidence[0] > 0.5).tolist()


def test_ranks_divide_the_batches_of_one_process(tiny: MakeConfig, data: TrainingSet) -> None:
    config = tiny({"train.batch": 5})
    alone, *ranks = (
        Course(config, data, Curriculum((0.0, 0.5)), 1, CPU, 4, rank=rank, ranks=count)
        for rank, count in ((0, 1), (0, 2), (1, 2))
    )
    for epoch in range(config.train.epochs):
        for step in range(alone.begin(epoch)):
            whole = alone.batch(step)
            assert whole.total == whole.weights.sum()
            for rank, course in enumerate(ranks):
                if step == 0:
                    course.begin(epoch)
                part = course.batch(step)
                assert torch.equal(part.images, whole.images[rank::2])
                assert torch.equal(part.targets, whole.targets[rank::2])
                assert torch.equal(part.weights, whole.weights[rank::2])
                assert (part.total, part.size, part.rate) == (whole.total, whole.size, whole.rate)


def test_crops_on_the_device_are_those_in_the_file(data: TrainingSet) -> None:
    mapped, resident = Crops(data, CPU), Crops(data, CPU, resident=True)
    index = np.array([35, 0, 17, 17])
    assert torch.equal(mapped(index), resident(index))
    assert data.unlabelled is not None
    assert mapped(index)[0].tolist() == data.unlabelled.images(np.array([19]))[0].tolist()


def test_crops_that_are_not_shared_are_refused(pool: Pool) -> None:
    from dataclasses import replace

    with pytest.raises(ValueError, match="share their crops"):
        TrainingSet(pool, replace(pool, crops=pool.crops.copy()))


# --- batches


def first(stream: Any, count: int) -> list[list[int]]:
    return [batch.tolist() for batch in islice(stream, count)]


@settings(max_examples=40, deadline=None)
@given(known=st.integers(1, 10), hidden=st.integers(0, 20), batch=st.integers(1, 40), seed=st.integers(0, 99))
def test_passes_show_everyone_equally_often(known: int, hidden: int, batch: int, seed: int) -> None:
    everyone = known + hidden
    members = np.arange(everyone)
    passes = 3
    drawn = np.concatenate(first(batches(members, known, everyone, batch, None, [seed, 0]), passes * everyone))
    for number in range(passes):
        assert sorted(drawn[number * everyone : (number + 1) * everyone]) == members.tolist()


@settings(max_examples=40, deadline=None)
@given(data=st.data(), seed=st.integers(0, 99))
def test_the_order_of_members_does_not_depend_on_who_else_is_one(data: st.DataObject, seed: int) -> None:
    known, everyone = 5, 25
    small = data.draw(st.sets(st.integers(known, everyone - 1)))
    large = small | data.draw(st.sets(st.integers(known, everyone - 1)))
    orders = []
    for chosen in (small, large):
        members = np.array([*range(known), *sorted(chosen)])
        drawn = [i for (i,) in first(batches(members, known, everyone, 1, None, [seed, 0]), len(members))]
        orders.append([i for i in drawn if i < known or i in small])
    assert orders[0] == orders[1]


@pytest.mark.parametrize(("share", "labelled"), [(0.25, 2), (0.5, 4), (0.0, 1), (0.99, 7)])  # both have a place
def test_a_labelled_share_holds_in_every_batch(share: float, labelled: int) -> None:
    members = np.array([0, 1, 2, 5, 7, 9])
    for batch in first(batches(members, 3, 12, 8, share, [1, 0]), 20):
        assert len(batch) == 8
        assert set(batch) <= set(members.tolist())
        assert sum(i < 3 for i in batch) == labelled


def test_a_labelled_share_of_nothing_selected_is_all_labelled() -> None:
    for batch in first(batches(np.arange(3), 3, 12, 8, 0.5, [1, 0]), 5):
        assert len(batch) == 8
        assert max(batch) < 3


def test_with_a_share_the_labelled_part_is_common_to_all_curricula() -> None:
    one, other = (
        first(batches(np.array([*range(4), *chosen]), 4, 20, 6, 0.5, [1, 0]), 10) for chosen in ([7], [5, 9, 12, 13])
    )
    assert [batch[:3] for batch in one] == [batch[:3] for batch in other]


# --- the rate


def test_the_papers_rate_falls_at_170_and_200() -> None:
    config = configuration.load(None, {"preset": "paper"})
    rates = {epoch: learning_rate(config, epoch) for epoch in (0, 169, 169.99, 170, 199, 199.5, 200, 209.9)}
    expected = {0: 1e-3, 169: 1e-3, 169.99: 1e-3, 170: 1e-4, 199: 1e-4, 199.5: 1e-4, 200: 1e-5, 209.9: 1e-5}
    assert rates == pytest.approx(expected)


def test_cosine_with_warm_up_by_hand(tiny: MakeConfig) -> None:
    config = tiny({"train.schedule": "cosine", "train.warmup": 0.2, "train.epochs": 10, "train.lr": 2.0})
    assert learning_rate(config, 0) == pytest.approx(0.002)  # not zero: an Adam step of rate zero is lost
    assert learning_rate(config, 1) == pytest.approx(1.0)
    assert learning_rate(config, 2) == pytest.approx(2.0)
    assert learning_rate(config, 6) == pytest.approx(1.0)
    assert learning_rate(config, 10) == pytest.approx(0.0)


@pytest.mark.parametrize("warmup", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("schedule", ["step", "cosine"])
def test_the_rate_is_never_negative_nor_above_its_peak(tiny: MakeConfig, schedule: str, warmup: float) -> None:
    config = tiny({"train.schedule": schedule, "train.warmup": warmup, "train.epochs": 20, "train.milestones": [5]})
    rates = [learning_rate(config, epoch) for epoch in np.linspace(0, 19.99, 200)]
    assert 0 <= min(rates) <= max(rates) <= config.train.lr

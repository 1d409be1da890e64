"""Batches of labelled and unlabelled images: who is in them, with which labels, and how hard they are to see."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from placl.config import Augment, Config
from placl.data.splits import Problem
from placl.learn.course import TrainingSet
from placl.methods.batches import Batches, harder

MakeConfig = Callable[..., Config]
CPU = torch.device("cpu")
STILL = {f"augment.{name}": 0 for name in ("flip", "rotate", "scale", "shift", "colour", "cutout")}


@pytest.fixture
def data(problem: Problem) -> TrainingSet:
    return TrainingSet(problem.labelled, problem.unlabelled)


@pytest.mark.parametrize(("share", "labelled"), [(0.25, 2), (0.5, 4), (0.9, 7), (None, 4)])
def test_a_batch_has_its_share_of_labelled_images(
    tiny: MakeConfig, data: TrainingSet, share: float | None, labelled: int
) -> None:
    source = Batches(tiny({"train.labelled_share": share}), data, 1, CPU, 4)
    for _ in range(3):
        _, _, known, _, _ = source.next(1)
        assert len(known) == 8
        assert int(known.sum()) == labelled


def test_all_images_come_in_turn(tiny: MakeConfig, data: TrainingSet) -> None:
    # 16 labelled and 24 unlabelled, 4 and 4 a batch.
    source = Batches(tiny(STILL), data, 1, CPU, 4)
    shown: dict[bool, list[bytes]] = {True: [], False: []}
    for step in range(6):
        first, _, known, _, _ = source.next(0)
        for image, is_known in zip(first.images, known.tolist(), strict=True):
            shown[is_known].append(image.numpy().tobytes())
        if step == 3:
            assert len(set(shown[True])) == 16
    assert len(set(shown[False])) == len(shown[False]) == 24
    assert not set(shown[True]) & set(shown[False])


def test_labels_are_those_of_labelled_images_alone(tiny: MakeConfig, data: TrainingSet) -> None:
    labels = data.labelled
    edge = (labels.crop_size - 32) / 2
    _, _, known, places, weights = Batches(tiny(STILL), data, 1, CPU, 4).next(1)
    assert not weights[~known].any()
    assert not places[weights == 0].any()
    for place, shown in zip(places[known].numpy(), weights[known].numpy() > 0, strict=True):
        assert shown.any()
        away = np.abs(labels.keypoints - edge - place)[:, shown].max(axis=(1, 2))  # (N,) from each labelled instance
        assert (away < 1e-3).sum() == 1
        assert (labels.visibility[away.argmin()][shown] > 0).all()


def test_a_hard_view_is_no_easier_than_an_easy_one(tiny: MakeConfig) -> None:
    easy = Augment(rotate=30, rotate_share=0.6, scale=0.15, shift=0.05, colour=0.15)
    assert harder(easy) == easy.model_copy(update={"rotate": 60.0, "rotate_share": 1.0, "scale": 0.25})
    assert harder(Augment(rotate=180, scale=0.4)).rotate == 180
    assert harder(Augment(rotate=180, scale=0.4)).scale == 0.4

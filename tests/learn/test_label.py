"""Reading a network: planted heatmaps come out at their place in the crop, from however many views they are seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from placl import config as configuration
from placl.config import Config
from placl.data.pool import Pool
from placl.data.skeleton import Skeleton
from placl.learn.label import label
from placl.learn.pseudo_labels import PseudoLabels
from placl.models.zoo import KeypointNet

CROP, SIZE, STRIDE = 80, 64, 4


class Fake(KeypointNet):
    """A network that needs no training; the parameter says where it lives."""

    stride = STRIDE

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(1))
        self.calls = 0


class Planted(Fake):
    """Answers with the same heatmaps whatever it sees."""

    def __init__(self, heatmaps: Tensor) -> None:
        super().__init__()
        self.heatmaps = heatmaps

    def forward(self, images: Tensor) -> Tensor:
        self.calls += 1
        return self.heatmaps.expand(len(images), -1, -1, -1)


class SeesDots(Fake):
    """Heatmaps are the first channel, blurred and shrunk: equivariant, as a perfect network would be."""

    def forward(self, images: Tensor) -> Tensor:
        self.calls += 1
        bright = (images[:, :1] + 2.1).clamp(min=0)  # a black pixel is about -2.1; outside the crop it is 0, hence dark
        bright = torch.where(bright > 2.3, bright - 2.3, 0.0)
        return F.avg_pool2d(bright, STRIDE) / 2.5


class TellsSides(SeesDots):
    """Keypoint 0 is the dot in the left half of the image, keypoint 1 the one in the right half."""

    def forward(self, images: Tensor) -> Tensor:
        seen = super().forward(images)
        left = torch.arange(seen.shape[-1]) < seen.shape[-1] / 2
        return torch.cat([seen * left, seen * ~left], dim=1)


def settings(**changes: Any) -> Config:
    plain = {"label.decode": "argmax", "label.flip": False, "label.rotations": [], "label.scales": []}
    base = {"model.input_size": SIZE, "train.loss": "mse", **plain}
    score = changes.pop("select__score", "peak")
    config = configuration.load(None, {**base, **{key.replace("__", "."): value for key, value in changes.items()}})
    # A copy is not validated: agreement of one view is refused to users.
    return config.model_copy(update={"select": config.select.model_copy(update={"score": score})})


def dots(*places: tuple[float, float], count: int = 1, view: float = 64.0, pairs: bool = False) -> Pool:
    """Pools of black crops with a bright Gaussian at each place."""
    pixels = np.arange(CROP)
    image = np.zeros((CROP, CROP))
    for x, y in places:
        image += np.exp(-((pixels[None, :] - x) ** 2 + (pixels[:, None] - y) ** 2) / (2 * 4.0**2))
    crops = np.repeat((255 * image.clip(0, 1)).astype(np.uint8)[None, :, :, None], 3, axis=3)
    k = 2 if pairs else 1
    return Pool(
        skeleton=Skeleton(("left", "right"), flip_pairs=((0, 1),)) if pairs else Skeleton(("dot",)),
        crops=crops,
        rows=np.zeros(count, np.int64),
        keypoints=np.zeros((count, k, 2), np.float32),
        visibility=np.zeros((count, k), np.uint8),
        length=np.ones(count, np.float32),
        area=np.ones(count, np.float32),
        to_image=np.tile([1.0, 0.0, 0.0], (count, 1)),
        image=np.arange(count),
        ids=tuple(f"i{i}" for i in range(count)),
        view=view,
    )


def planted(column: int, row: int, height: float = 0.75) -> Planted:
    heatmaps = torch.zeros(1, 1, SIZE // STRIDE, SIZE // STRIDE)
    heatmaps[0, 0, row, column] = height
    return Planted(heatmaps)


def test_a_planted_peak_in_crop_pixels() -> None:
    found = label(planted(5, 9), dots((40, 40)), settings())
    # Heatmap pixel 5 is input pixel 5.5 * 4 - 0.5 = 21.5, and the view begins at pixel 8 of the crop.
    assert found.keypoints[0, 0].tolist() == pytest.approx([29.5, 45.5])
    assert found.confidence[0, 0] == pytest.approx(0.75)


def test_an_input_smaller_than_the_view_scales_back() -> None:
    # The view is 72 px of the crop, seen at 64: input pixel 21.5 is 22 * 72 / 64 - 0.5 from the view's corner at 4.
    found = label(planted(5, 9), dots((40, 40), view=72.0), settings())
    assert found.keypoints[0, 0].tolist() == pytest.approx([22 * 1.125 - 0.5 + 4, 38 * 1.125 - 0.5 + 4])


@pytest.mark.parametrize(
    ("loss", "height", "confidence"), [("mse", 1.7, 1.0), ("mse", -0.5, 0.0), ("bce", 2.0, 0.880797)]
)
def test_confidence_is_the_peak_in_the_unit_interval(loss: str, height: float, confidence: float) -> None:
    net = planted(5, 9, height)
    if height < 0:
        net.heatmaps = torch.full_like(net.heatmaps, height)
    assert label(net, dots((40, 40)), settings(train__loss=loss)).confidence[0, 0] == pytest.approx(confidence)


def test_an_mse_peak_above_one_is_still_the_peak() -> None:
    net = planted(5, 9, 1.8)
    net.heatmaps[0, 0, 2, 3] = 1.2  # clamped first, the earlier pixel would win
    assert label(net, dots((40, 40)), settings()).keypoints[0, 0].tolist() == pytest.approx([29.5, 45.5])


def test_batches_cover_everyone_and_are_counted() -> None:
    seen: list[tuple[int, int]] = []
    net = planted(5, 9)
    found = label(net, dots((40, 40), count=7), settings(label__batch=3), model="abc",
                  on_progress=lambda done, total: seen.append((done, total)))  # fmt: skip
    assert seen == [(3, 7), (6, 7), (7, 7)]
    assert net.calls == 3
    assert found.model == "abc"
    assert len(np.unique(found.keypoints.reshape(7, -1), axis=0)) == 1
    assert len(label(net, dots((40, 40), count=0), settings()).keypoints) == 0


VIEWS: list[dict[str, Any]] = [
    {"label__flip": True},
    {"label__rotations": [-30, 30, 90]},
    {"label__scales": [0.8, 1.3]},
    {"label__flip": True, "label__rotations": [20], "label__scales": [1.2]},
]


@pytest.mark.parametrize("views", VIEWS)
def test_every_view_of_an_equivariant_network_says_the_same(views: dict[str, Any]) -> None:
    net, pool = SeesDots(), dots((47.5, 35.5))
    found = label(
        net, pool, settings(**views, label__decode="dark", select__score="agreement", train__sigma=1.0), all_views=True
    )
    assert found.keypoints[0, 0].tolist() == pytest.approx([47.5, 35.5], abs=0.7)
    assert found.confidence[0, 0] > 0.97  # the views agree within a fraction of the target's width
    count = 1 + len(views.get("label__rotations", [])) + len(views.get("label__scales", []))
    assert net.calls == count * (2 if views.get("label__flip") else 1)


def test_scores_and_predictions_read_the_plain_view_only() -> None:
    net = SeesDots()
    every = settings(label__flip=True, label__rotations=[20], label__scales=[1.2])
    found = label(net, dots((47.5, 35.5)), every)
    assert net.calls == 1
    assert found.keypoints.tolist() == label(SeesDots(), dots((47.5, 35.5)), settings()).keypoints.tolist()


def test_one_view_has_nothing_to_agree_with() -> None:
    found = label(planted(5, 9, 0.7), dots((40, 40)), settings(label__flip=True, select__score="agreement"))
    assert found.confidence[0, 0] == pytest.approx(0.7)


def test_views_that_disagree_are_not_trusted() -> None:
    # The same heatmap for a mirrored image means another place.
    disagreeing = settings(label__flip=True, select__score="agreement", train__sigma=1.0)
    found = label(planted(5, 8), dots((40, 40)), disagreeing, all_views=True)
    # Columns 5 and 10 are 20 input pixels apart. The common answer is one of them, so the mean square is 20^2 / 2.
    assert found.confidence[0, 0] == pytest.approx(np.exp(-200 / (2 * 4**2)), rel=1e-3)


def test_mirrored_answers_change_sides() -> None:
    pool = dots((28, 40), (52, 40), pairs=True)
    plain = label(TellsSides(), pool, settings())
    both = label(TellsSides(), pool, settings(label__flip=True), all_views=True)
    assert plain.keypoints[0, 0, 0] < 40 < plain.keypoints[0, 1, 0]
    np.testing.assert_allclose(both.keypoints, plain.keypoints, atol=1e-4)
    np.testing.assert_allclose(both.confidence, plain.confidence, atol=1e-4)  # without the swap: half of it


def test_without_pairs_a_mirrored_answer_stays_where_it_is() -> None:
    pool = replace(dots((28, 40), (52, 40), pairs=True), skeleton=Skeleton(("left", "right")))
    plain, both = (label(TellsSides(), pool, settings(label__flip=flip), all_views=True) for flip in (False, True))
    assert both.confidence.max() == pytest.approx(plain.confidence.max() / 2, abs=0.02)


def test_labels_are_not_looked_at(pool: Pool) -> None:
    config = settings(model__input_size=32)
    net = SeesAnimals()
    known, bare = label(net, pool, config), label(net, pool.without_labels(), config)
    assert np.array_equal(known.keypoints, bare.keypoints)
    assert np.array_equal(known.confidence, bare.confidence)


class SeesAnimals(SeesDots):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images).expand(-1, 14, -1, -1)


def test_take_takes_rows() -> None:
    pseudo = PseudoLabels(np.arange(12, dtype=np.float32).reshape(3, 2, 2), np.arange(6.0).reshape(3, 2), "m")
    part = pseudo.take(np.array([2, 0]))
    assert part.keypoints[:, 0, 0].tolist() == [8, 0]
    assert part.confidence[:, 0].tolist() == [4, 0]
    assert part.model == "m"

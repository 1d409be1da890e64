"""Numbers at the edge of what makes sense: nothing becomes NaN, and what cannot work is refused in one line."""

from __future__ import annotations

import math
import resource
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import cv2
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from placl.api import train
from placl.config import Config
from placl.curriculum.curriculum import constant
from placl.curriculum.searcher import make_searcher
from placl.data.images import MOST_PIXELS, UnreadableImageError, decode
from placl.data.load import Dataset
from placl.data.pool import Pool
from placl.data.skeleton import Skeleton
from placl.errors import InputError
from placl.learn.candidate import Outcome, Task, run_candidate
from placl.learn.course import TrainingSet
from placl.learn.inner_loop import inner_loop
from placl.learn.pseudo_labels import PseudoLabels
from placl.models import zoo
from placl.planning import plan
from placl.search import rewards_of

MakeConfig = Callable[..., Config]


def with_keypoints(count: int, instances: int = 12) -> Pool:
    """Grey crops with ``count`` keypoints on a grid."""
    size, random = 32, np.random.default_rng(0)
    return Pool(
        skeleton=Skeleton(tuple(f"k{k}" for k in range(count)), (), ()),
        crops=random.integers(0, 255, (instances, size, size, 3), np.uint8),
        rows=np.arange(instances),
        ids=tuple(map(str, range(instances))),
        keypoints=random.uniform(4, 28, (instances, count, 2)).astype(np.float32),
        visibility=np.full((instances, count), 2, np.uint8),
        length=np.full(instances, 20, np.float32),
        area=np.full(instances, 400, np.float32),
        to_image=np.tile([1.0, 0.0, 0.0], (instances, 1)),
        image=np.arange(instances),
        view=float(size),
    )


@pytest.mark.parametrize("count", [1, 500])
def test_one_keypoint_and_five_hundred(tiny: MakeConfig, tmp_path: Path, count: int) -> None:
    dataset = Dataset(with_keypoints(count), np.repeat(["labelled", "val", "test"], [8, 2, 2]), ())
    settings = {"data.label_fraction": 0.5, "train.batch": 4, "rounds.count": 1, "search.steps": 1}
    result = train(tiny(settings), tmp_path / "run", dataset=dataset)
    assert [row["stage"] for row in result.rows] == ["round_0", "round_1", "final"]
    assert all(0 <= row["test"] <= 100 for row in result.rows)


def test_one_labelled_image(tiny: MakeConfig, tmp_path: Path) -> None:
    source = np.repeat(["labelled", "unlabelled", "val"], [1, 8, 3])
    dataset = Dataset(with_keypoints(3), source, ())
    with pytest.raises(InputError, match=r"1 labelled instances are fewer than a batch of 8\. .* train\.batch=1"):
        train(tiny({"data.val_fraction": 0, "train.epoch": "data"}), tmp_path / "refused", dataset=dataset)
    assert not (tmp_path / "refused").exists()
    settings = {"data.val_fraction": 0, "train.labelled_share": None, "rounds.count": 1, "search.steps": 1}
    for batch in (1, 8):  # where steps are counted, an image stands in a batch more than once
        result = train(tiny({**settings, "train.batch": batch}), tmp_path / f"run_{batch}", dataset=dataset)
        assert result.row("round_0")["labels"] == 1
        assert result.row("round_0")["images"] == 2 * 2 * batch


def test_no_validation_label_is_needed_where_nothing_is_searched_for(tiny: MakeConfig, tmp_path: Path) -> None:
    dataset = Dataset(with_keypoints(3), np.repeat(["labelled", "unlabelled"], [4, 8]), ())
    config = tiny({"search.searcher": "constant", "data.val_fraction": 0, "rounds.count": 1})
    result = train(config, tmp_path / "run", dataset=dataset)
    assert [(row["stage"], row["val"], row["val_labels"]) for row in result.rows][-1] == ("final", None, 0)
    with patch("placl.calibration.CALIBRATION", 0.2):
        assert list(plan(config, dataset).trainings) == ["round_0", "round_1", "final"]
    with pytest.raises(InputError, match=r"rounds\.keep=best: there is no validation set .* Use rounds\.keep=last\."):
        train(config.model_copy(update={"rounds": config.rounds.model_copy(update={"keep": "best"})}),
              tmp_path / "best", dataset=dataset)  # fmt: skip
    with pytest.raises(InputError, match="the validation split is empty"):
        train(tiny({"data.val_fraction": 0, "rounds.count": 1}), tmp_path / "searching", dataset=dataset)


@pytest.mark.parametrize(("threshold", "share"), [(1.0, 0.0), (0.0, 1.0)])
def test_nothing_and_everything_selected(tiny: MakeConfig, threshold: float, share: float) -> None:
    pool = with_keypoints(3)
    labelled, hidden = pool.take(np.arange(8)), pool.take(np.arange(8, 12))
    pseudo = PseudoLabels(hidden.keypoints, np.full(hidden.visibility.shape, 0.5, np.float32), "m")
    data = TrainingSet(labelled, hidden.without_labels(), pseudo)
    trained = inner_loop(tiny({"select.scale": "raw"}), data, constant(threshold), 1)
    assert trained.selected == (share,)
    assert not trained.diverged


class Dead(zoo.KeypointNet):
    """Says the same of every image, and has nothing to learn from."""

    stride = 4

    def __init__(self, keypoints: int, answer: float) -> None:
        super().__init__()
        self.keypoints, self.answer, self.weight = keypoints, answer, nn.Parameter(torch.zeros(1))

    def forward(self, images: Tensor) -> Tensor:
        side = images.shape[-1] // 4
        return self.answer + 0 * self.weight + images.new_zeros(len(images), self.keypoints, side, side)


@pytest.mark.parametrize("answer", [0.0, math.nan, math.inf])
def test_dead_networks_have_a_reward_and_leave_a_policy(tiny: MakeConfig, answer: float) -> None:
    zoo.register("dead")(lambda spec: Dead(spec.keypoints, answer))
    try:
        pool = with_keypoints(3)
        labelled, hidden, val = (pool.take(index) for index in np.split(np.arange(12), [8, 10]))
        pseudo = PseudoLabels(hidden.keypoints, np.full(hidden.visibility.shape, 0.5, np.float32), "m")
        config = tiny({"model.name": "dead", "model.width": 1.0})
        task = Task(config.proxied(), TrainingSet(labelled, hidden.without_labels(), pseudo), val)
        searcher = make_searcher(config.search, np.zeros(config.groups), 0)
        rewards = [run_candidate(task, curriculum, 1).reward for curriculum in searcher.ask(2)]
    finally:
        del zoo._REGISTRY["dead"]
    assert all(math.isfinite(reward) for reward in rewards)
    searcher.tell(np.array(rewards))
    assert np.isfinite(searcher.best().array).all()


def test_a_reward_that_is_no_number_is_the_worst() -> None:
    outcomes = [Outcome(reward, 8, (0.5,)) for reward in (math.nan, 1.5, math.inf, -math.inf)]
    assert rewards_of(outcomes).tolist() == [0, 1.5, 0, 0]


def test_an_image_of_one_pixel(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), np.full((1, 1, 3), 7, np.uint8))
    assert decode(tmp_path / "a.png").tolist() == [[[7, 7, 7]]]


@pytest.mark.parametrize("kind", ["png", "tif", "bmp"])
def test_a_gigabyte_in_a_small_file_is_refused_unseen(tmp_path: Path, kind: str) -> None:
    from PIL import Image

    side = 20_000
    assert side**2 > MOST_PIXELS
    Image.new("1", (side, side)).save(tmp_path / f"a.{kind}", **({"compression": "tiff_lzw"} if kind == "tif" else {}))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UnreadableImageError, match="too many pixels"):
        decode(tmp_path / f"a.{kind}")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10  # kilobytes

"""What consistency terms are tried on: plain views of plain images, and networks that say what they are told."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from placl.config import Config
from placl.data.skeleton import Skeleton
from placl.data.splits import Problem
from placl.learn.course import TrainingSet
from placl.methods.consistency import Seen, Term, train_consistently
from placl.methods.views import View
from placl.models.weights import weights_sha256
from placl.models.zoo import KeypointNet

SIZE, STRIDE = 16, 4
SKELETON = Skeleton(keypoints=("left", "right"), edges=(), flip_pairs=((0, 1),))


class Told(KeypointNet):
    """A network that answers with the given heatmaps, call by call, and remembers the images."""

    stride = STRIDE

    def __init__(self, *answers: Tensor) -> None:
        super().__init__()
        self.answers, self.images = list(answers), list[Tensor]()
        self.gain = nn.Parameter(torch.ones(()))

    def forward(self, images: Tensor) -> Tensor:
        self.images.append(images)
        return self.answers[len(self.images) - 1] * self.gain


def view(count: int = 1, *, x: float = 0.0, mirrored: bool = False, fill: float = 1.0) -> View:
    """Images of one colour, their crops moved to the left by ``x`` pixels."""
    matrix = torch.tensor([[-1.0 if mirrored else 1.0, 0.0, x], [0.0, 1.0, 0.0]]).repeat(count, 1, 1)
    return View(torch.full((count, 3, SIZE, SIZE), fill), matrix, torch.full((count,), mirrored))


def peak(x: int, y: int, height: float = 1.0) -> Tensor:
    """(4, 4) a heatmap of one pixel."""
    heatmap = torch.zeros(4, 4)
    heatmap[y, x] = height
    return heatmap


def seen(outputs: Tensor, *others: View, first: View | None = None) -> Seen:
    """A batch without labels."""
    count, keypoints = outputs.shape[:2]
    return Seen(
        outputs=outputs,
        first=first or view(count),
        others=others,
        labelled=torch.zeros(count, dtype=torch.bool),
        keypoints=torch.zeros(count, keypoints, 2),
        targets=torch.zeros_like(outputs).detach(),
        weights=torch.zeros(count, keypoints),
        place=0.5,
    )


def repeats(make_term: Callable[..., Term], config: Config, problem: Problem) -> str:
    """Train twice: losses are numbers, and the weights, whose hash is given back, the same bits."""
    data = TrainingSet(problem.labelled, problem.unlabelled)
    losses: list[float] = []
    hashes = set()
    for noise in (1, 2):
        torch.manual_seed(noise)  # whatever the global generator holds
        trained = train_consistently(
            config, data, make_term, 5, threads=1, on_epoch=lambda *told: losses.append(told[2])
        )
        assert not trained.diverged
        assert not trained.net.training
        hashes.add(weights_sha256(trained.net))
    assert len(losses) == 2 * config.train.epochs
    assert all(math.isfinite(loss) and loss > 0 for loss in losses)
    assert losses[: config.train.epochs] == losses[config.train.epochs :]
    assert len(hashes) == 1
    return hashes.pop()

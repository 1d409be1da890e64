"""SSKL: representations under heatmaps, what names them, and that they stay as the image moves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lessons import SKELETON, peak, repeats, seen, view
from placl.config import Config
from placl.data.splits import Problem
from placl.learn.course import TrainingSet
from placl.learn.network import fresh_network
from placl.methods import sskl
from placl.methods.batches import Batches
from placl.methods.consistency import Seen
from placl.methods.sskl import (
    EQUIVARIANCE,
    INVARIANCE,
    SCALE,
    SEMANTIC,
    SSKL,
    equivariance,
    invariance,
    represent,
)
from placl.methods.views import View
from placl.models.zoo import KeypointNet

MakeConfig = Callable[..., Config]
CPU = torch.device("cpu")


@pytest.fixture
def config(tiny: MakeConfig) -> Config:
    return tiny({"model.input_size": 16, "train.loss": "mse"})


class Small(KeypointNet):
    """Features are the first two channels at a quarter of the side, and so are the heatmaps."""

    stride = 4

    def __init__(self) -> None:
        super().__init__()
        self.final_layer = nn.Conv2d(2, 2, 1, bias=False)
        with torch.no_grad():
            self.final_layer.weight.copy_(torch.eye(2)[..., None, None])

    def forward(self, images: Tensor) -> Tensor:
        heatmaps: Tensor = self.final_layer(F.avg_pool2d(images, 4)[:, :2])
        return heatmaps


def pictures(*heatmaps: Tensor) -> View:
    """A plain view that :class:`Small` answers with the given (2, 4, 4) heatmaps."""
    channels = torch.stack([torch.cat([both, torch.zeros(1, 4, 4)]) for both in heatmaps])
    images = channels.repeat_interleave(4, 2).repeat_interleave(4, 3)
    return replace(view(len(heatmaps)), images=images)


def undecided(term: SSKL) -> None:
    """Make the classifier find all names as likely."""
    last = term.classifier[-1]
    assert isinstance(last, nn.Linear)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)


# --- representations


def test_a_representation_is_the_mean_under_the_heatmap() -> None:
    features = torch.arange(8.0).reshape(1, 2, 2, 2)  # channel 0 has 0 to 3, channel 1 has 4 to 7
    heatmaps = torch.tensor([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.5], [0.0, 0.5]], [[9.0, 9.0], [9.0, 9.0]]])[None]
    assert represent(features, heatmaps).tolist() == [[[0.0, 4.0], [2.0, 6.0], [1.5, 5.5]]]
    assert represent(features, -heatmaps).tolist() == [[[0.0, 0.0]] * 3]  # without a division by 0


def test_invariance_by_hand() -> None:
    before = torch.tensor([[[3.0, 4.0], [5.0, 0.0], [1.0, 1.0]]])
    after = torch.tensor([[[6.0, 8.0], [0.0, 0.1], [9.0, -9.0]]])
    # The lengths do not count. Of two right angles, each |e1 - e2|^2 / 2 = 1, one is of a keypoint that has left.
    assert invariance(before, after, torch.tensor([[1.0, 1.0, 0.0]])).item() == pytest.approx(0.5)
    assert invariance(before, after, torch.zeros(1, 3)).item() == 0.0


def test_equivariance_by_hand() -> None:
    moved, again = torch.full((1, 2, 4, 4), 0.5), torch.zeros(1, 2, 4, 4)
    again[0, 0] = 0.5
    known = torch.ones(1, 1, 4, 4)
    assert equivariance(moved, again, known).item() == pytest.approx(0.25 / 2)
    again[..., 0] = 7.0  # where the first view does not say
    known[..., 0] = 0.0
    assert equivariance(moved, again, known).item() == pytest.approx(0.25 / 2)


# --- names


def test_undecided_names_cost_the_logarithm_of_their_number(config: Config) -> None:
    net = Small()
    term = SSKL(config, net, SKELETON, 1)
    undecided(term)
    outputs = torch.rand(3, 2, 4, 4)
    assert term.semantic(outputs, outputs, seen(outputs)).item() == pytest.approx(math.log(2))


def test_labels_name_what_is_under_them(config: Config) -> None:
    # Two images whose features are 1 at one pixel of each channel; the network answers with flat heatmaps.
    features = torch.stack([peak(1, 2), peak(3, 0)]).repeat(2, 1, 1, 1)
    flat = torch.ones(2, 2, 4, 4)
    term = SSKL(config, Small(), SKELETON, 1)
    term.classifier = nn.Sequential(nn.Identity())  # the logits are the representation
    hidden = seen(flat)
    assert term.semantic(features, flat, hidden).item() == pytest.approx(math.log(2))  # both are (1/16, 1/16)
    known = replace(
        hidden,
        labelled=torch.tensor([True, False]),
        targets=features,
        weights=torch.tensor([[1.0, 0.0], [0.0, 0.0]]),  # the second keypoint is not visible
    )
    # (1, 0) under the label of the first, and twice an even (1/16, 1/16) under heatmaps of the image without labels.
    expected = (math.log(1 + math.exp(-1)) + 2 * math.log(2)) / 3
    assert term.semantic(features, flat, known).item() == pytest.approx(expected)


# --- the whole


def test_the_loss_by_hand(config: Config) -> None:
    net = Small()
    term = SSKL(config, net, SKELETON, 1)
    undecided(term)
    first = pictures(torch.stack([peak(1, 2), peak(2, 0)]))
    outputs = net(first.images)
    assert term.loss(net, seen(outputs, first, first=first)).item() == pytest.approx(SEMANTIC * math.log(2))
    # In the second view both keypoints are at the same place: features there are (1, 1) in place of (1, 0) and (0, 1).
    other = pictures(torch.stack([peak(1, 2), peak(1, 2)]))
    outputs = net(first.images)
    turned = (2 - 2 / math.sqrt(2)) / 2  # |e1 - (e1 + e2) / sqrt 2|^2 over two channels
    expected = SEMANTIC * math.log(2) + EQUIVARIANCE * 2 / 32 + INVARIANCE * turned
    assert term.loss(net, seen(outputs, other, first=first)).item() == pytest.approx(expected, rel=1e-4)


def test_a_mirrored_view_swaps_heatmaps_and_representations(config: Config) -> None:
    net = Small()
    term = SSKL(config, net, SKELETON, 1)
    undecided(term)
    outputs = net(pictures(torch.stack([peak(1, 2), 2 * peak(2, 0)])).images)
    # Left and right change places, and what channels mean with them: an image whose features follow is turned around.
    target = replace(view(mirrored=True), images=pictures(torch.stack([2 * peak(1, 0), peak(2, 2)])).images)
    loss = term.loss(net, seen(outputs, target))
    # Heatmaps agree. Representations, (1, 0) and (0, 1) by keypoint, are those of the other keypoint now.
    assert loss.item() == pytest.approx(SEMANTIC * math.log(2) + INVARIANCE * 1.0, rel=1e-4)


def test_bce_has_its_own_scale(tiny: MakeConfig) -> None:
    config = tiny({"model.input_size": 16})
    net = Small()
    term = SSKL(config, net, SKELETON, 1)
    undecided(term)
    first = pictures(torch.stack([peak(1, 2), peak(2, 0)]))
    loss = term.loss(net, seen(net(first.images), first, first=first))
    assert loss.item() == pytest.approx(SCALE["bce"] * SEMANTIC * math.log(2))


def test_the_network_is_given_back_as_it_was(config: Config) -> None:
    net = Small()
    term = SSKL(config, net, SKELETON, 1)
    assert len(net.final_layer._forward_pre_hooks) == 1
    assert term.result(net) is net
    assert not net.final_layer._forward_pre_hooks


# --- gradients


def unlabelled(config: Config, net: KeypointNet, problem: Problem) -> Seen:
    """A batch of real images in two views, without labels."""
    data = TrainingSet(problem.labelled, problem.unlabelled)
    first, others, *_ = Batches(config, data, 3, CPU, net.stride).next(1)
    return seen(net(first.images), *others, first=first)


@pytest.mark.parametrize("loss", ["bce", "mse"])
@pytest.mark.parametrize("part", ["SEMANTIC", "EQUIVARIANCE", "INVARIANCE"])
def test_gradients_reach_the_network_without_labels(
    tiny: MakeConfig, problem: Problem, loss: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in {"SEMANTIC", "EQUIVARIANCE", "INVARIANCE"} - {part}:
        monkeypatch.setattr(sskl, other, 0.0)
    config = tiny({"train.loss": loss})
    net = fresh_network(config, 14, 1, CPU)
    term = SSKL(config, net, problem.labelled.skeleton, 1)
    term.loss(net, unlabelled(config, net, problem)).backward()
    still = [name for name, p in net.named_parameters() if p.grad is None or not p.grad.abs().max() > 0]
    assert not still
    named = [bool(p.grad is not None and p.grad.abs().max() > 0) for p in term.classifier.parameters()]
    assert all(named) if part == "SEMANTIC" else not any(named)


def test_names_of_labelled_keypoints_teach_the_features(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in ("EQUIVARIANCE", "INVARIANCE"):
        monkeypatch.setattr(sskl, other, 0.0)
    net, target = Small(), view()
    term = SSKL(config, net, SKELETON, 1)
    first = replace(view(), images=torch.rand(1, 3, 16, 16, requires_grad=True))
    labels = torch.stack([peak(1, 2), peak(3, 0)])[None]
    batch = seen(net(first.images), target, first=first)
    batch = replace(batch, labelled=torch.tensor([True]), targets=labels, weights=torch.ones(1, 2))
    term.loss(net, batch).backward()
    assert first.images.grad is not None
    touched = F.avg_pool2d(first.images.grad.abs(), 4)[0, :2] > 0
    assert torch.equal(touched, (labels[0].sum(0) > 0).expand(2, 4, 4))  # under the labels, and nowhere else


# --- training


@pytest.mark.parametrize("part", ["SEMANTIC", "EQUIVARIANCE", "INVARIANCE"])
def test_it_trains_and_repeats(tiny: MakeConfig, problem: Problem, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = repeats(SSKL, tiny(), problem)
    monkeypatch.setattr(sskl, part, 0.0)
    assert repeats(SSKL, tiny(), problem) != trained

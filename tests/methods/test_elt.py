"""ELT: what soft-argmax makes of a heatmap, and how far it may be off in another view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lessons import SKELETON, Told, peak, repeats, seen, view
from placl.config import Config
from placl.data.splits import Problem
from placl.learn.course import TrainingSet
from placl.learn.losses import heatmap_loss
from placl.learn.network import fresh_network
from placl.methods import elt
from placl.methods.batches import Batches
from placl.methods.consistency import Seen
from placl.methods.elt import ELT, TEMPERATURE, WEIGHT, labels_again, soft_argmax
from placl.methods.views import View
from placl.models.codec import HeatmapCodec
from placl.models.zoo import KeypointNet

MakeConfig = Callable[..., Config]
CPU = torch.device("cpu")
CODEC = HeatmapCodec(input_size=16, stride=4, sigma=1.0)
SURE = 100.0  # a logit beside which all others are nothing


@pytest.fixture
def config(tiny: MakeConfig) -> Config:
    return tiny({"model.input_size": 16})


def two(left: tuple[int, int], right: tuple[int, int]) -> Tensor:
    """(1, 2, 4, 4) logits of a network that is sure of a pixel for each of two keypoints."""
    return torch.stack([peak(*left, height=SURE), peak(*right, height=SURE)])[None]


def loss_of(config: Config, first: Tensor, second: Tensor, target: View) -> float:
    return ELT(config, Told(), SKELETON, 1).loss(Told(second), seen(first, target)).item()


# --- soft-argmax


def test_the_expected_place() -> None:
    assert soft_argmax("bce", two((0, 3), (2, 1)), CODEC).tolist() == [[[1.5, 13.5], [9.5, 5.5]]]
    flat = soft_argmax("bce", torch.zeros(1, 1, 4, 4), CODEC)
    assert flat.tolist() == [[[7.5, 7.5]]]  # the centre of 16 pixels
    # One of 16 pixels counts three times: 6 of 18 lie in the first column and 4 in each of the others.
    logits = torch.zeros(1, 1, 4, 4)
    logits[0, 0, 0, 0] = torch.tensor(3.0).log()
    assert soft_argmax("bce", logits, CODEC)[0, 0].tolist() == pytest.approx([4 * 24 / 18 + 1.5] * 2)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_heights_are_read_as_logits_of_a_temperature(seed: int) -> None:
    heights = torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(seed))
    places = soft_argmax("mse", heights, CODEC)
    torch.testing.assert_close(places, soft_argmax("bce", TEMPERATURE * heights, CODEC))
    assert places.min() >= 1.5
    assert places.max() <= 13.5


# --- the loss


def test_the_same_answer_in_the_same_view_costs_nothing(config: Config) -> None:
    logits = torch.randn(1, 2, 4, 4, generator=torch.Generator().manual_seed(1))
    assert loss_of(config, logits, logits, view()) == 0.0


def test_a_known_shift(config: Config) -> None:
    first = two((1, 1), (2, 3))
    # All is 4 pixels, a heatmap pixel, further left in the second view: an answer that does not move is off by that.
    assert loss_of(config, first, two((0, 1), (1, 3)), view(x=4.0)) == pytest.approx(0.0, abs=1e-12)
    assert loss_of(config, first, first, view(x=4.0)) == pytest.approx(WEIGHT * (4 / 16) ** 2)
    # One of two keypoints is off by a heatmap pixel both in x and in y.
    assert loss_of(config, first, two((1, 1), (3, 2)), view()) == pytest.approx(WEIGHT * (4**2 + 4**2) / 16**2 / 2)


def test_a_keypoint_that_leaves_does_not_count(config: Config) -> None:
    first = two((0, 1), (2, 3))  # the left one is at x = 1.5, and 8 pixels further left outside
    assert loss_of(config, first, two((3, 3), (1, 3)), view(x=8.0)) == pytest.approx(WEIGHT * (4 / 16) ** 2 / 2)
    assert loss_of(config, two((0, 1), (0, 3)), first, view(x=8.0)) == 0.0


def test_a_keypoint_counts_where_both_views_are_sure_of_it(config: Config) -> None:
    first, second = two((1, 1), (2, 3)), two((2, 1), (2, 2))  # both off by a heatmap pixel
    one = WEIGHT * (4 / 16) ** 2 / 2
    assert loss_of(config, first, second, view()) == pytest.approx(2 * one)
    unsure = first.clone()
    unsure[0, 0] -= SURE + 3  # the peak's probability is 1 / (1 + e^3), below a tenth
    assert loss_of(config, unsure, second, view()) == pytest.approx(one)
    assert loss_of(config, second, unsure, view()) == pytest.approx(one)
    # Mirrored, the left one of the first view is the right one of the second, whose own left one is unsure.
    assert loss_of(config, unsure, unsure, view(mirrored=True)) == 0.0


def test_a_mirrored_view_swaps_left_and_right(config: Config) -> None:
    first = two((0, 1), (2, 3))
    assert loss_of(config, first, two((1, 3), (3, 1)), view(mirrored=True)) == pytest.approx(0.0, abs=1e-12)
    assert loss_of(config, first, two((3, 1), (1, 3)), view(mirrored=True)) > 0.01


def test_the_loss_does_not_depend_on_the_size(tiny: MakeConfig, config: Config) -> None:
    first, second = two((0, 1), (2, 3)), two((1, 3), (0, 0))
    large = replace(view(), images=torch.zeros(1, 3, 32, 32))
    net = Told(second.repeat_interleave(2, 2).repeat_interleave(2, 3))
    batch = seen(first.repeat_interleave(2, 2).repeat_interleave(2, 3), large, first=large)
    loss = ELT(tiny({"model.input_size": 32}), net, SKELETON, 1).loss(net, batch)
    assert loss.item() == pytest.approx(loss_of(config, first, second, view()))


def test_labels_are_used_in_the_second_view_too(config: Config) -> None:
    # Of two images one is labelled, and of its keypoints the left one, which a mirror makes the right one.
    outputs = torch.randn(2, 2, 4, 4, generator=torch.Generator().manual_seed(1))
    target, term = view(2, mirrored=True), ELT(config, Told(), SKELETON, 1)
    batch = replace(
        seen(torch.zeros(2, 2, 4, 4), target),
        labelled=torch.tensor([True, False]),
        keypoints=torch.tensor([[[13.5, 1.5], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]]),
        weights=torch.tensor([[1.0, 0.0], [0.0, 0.0]]),
    )
    heatmap, _ = term.codec.encode(torch.tensor([[[1.5, 1.5]]]), torch.ones(1, 1))
    expected = heatmap_loss("bce", outputs[:1, 1:], heatmap, torch.ones(1, 1)) / 4  # of four keypoints
    torch.testing.assert_close(labels_again(term, outputs, batch, target), expected)


# --- gradients


def unlabelled(config: Config, net: KeypointNet, problem: Problem) -> Seen:
    """A batch of real images in two views, without labels."""
    data = TrainingSet(problem.labelled, problem.unlabelled)
    first, others, *_ = Batches(config, data, 3, CPU, net.stride).next(1)
    return seen(net(first.images), *others, first=first)


@pytest.mark.parametrize("loss", ["bce", "mse"])
def test_gradients_reach_the_network_without_labels(tiny: MakeConfig, problem: Problem, loss: str) -> None:
    config = tiny({"train.loss": loss})
    net = fresh_network(config, 14, 1, CPU)
    torch.nn.init.constant_(net.get_parameter("final_layer.bias"), 0.5)  # sure of something everywhere
    ELT(config, net, problem.labelled.skeleton, 1).loss(net, unlabelled(config, net, problem)).backward()
    moved = {name: float(p.grad.abs().max()) for name, p in net.named_parameters() if p.grad is not None}
    bias = moved.pop("final_layer.bias")  # a softmax does not see what is added everywhere
    assert len(moved) == len(list(net.parameters())) - 1
    assert min(moved.values()) > 0
    assert bias < 1e-3 * moved["final_layer.weight"]


def test_gradients_go_through_both_branches(config: Config) -> None:
    first, second = (torch.randn(1, 2, 4, 4, requires_grad=True) for _ in range(2))
    ELT(config, Told(), SKELETON, 1).loss(Told(second), seen(first, view(x=4.0))).backward()
    for branch in (first, second):
        assert branch.grad is not None
        assert (branch.grad.abs() > 0).all()


# --- training


def test_it_trains_and_repeats(tiny: MakeConfig, problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elt, "SURE", 0.0)  # after a few steps a network is sure of nothing
    trained = repeats(ELT, tiny(), problem)
    monkeypatch.setattr(elt, "WEIGHT", 0.0)
    assert repeats(ELT, tiny(), problem) != trained

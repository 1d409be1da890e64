"""Gen: an image is drawn from the looks of one view and the keypoints of another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from lessons import SKELETON, Told, peak, repeats, seen, view
from placl.config import Config
from placl.data.splits import Problem
from placl.learn.course import TrainingSet
from placl.learn.network import fresh_network
from placl.methods import gen
from placl.methods.batches import Batches
from placl.methods.consistency import Seen
from placl.methods.gen import WEIGHT, Gen, relative_error
from placl.methods.views import View
from placl.models.zoo import KeypointNet

MakeConfig = Callable[..., Config]
CPU = torch.device("cpu")


@pytest.fixture
def config(tiny: MakeConfig) -> Config:
    return tiny({"model.input_size": 16})


class Pixels(nn.Module):
    """Features that are the image alone."""

    def forward(self, image: Tensor) -> list[Tensor]:
        return [image]


class Copy(nn.Module):
    """A painter that gives back the looks it was given, and remembers the Gaussians."""

    gaussians: Tensor

    def forward(self, image: Tensor, gaussians: Tensor) -> Tensor:
        self.gaussians = gaussians
        return image


def noise(seed: int) -> View:
    images = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(seed))
    return replace(view(), images=images)


# --- the loss


def test_errors_are_relative_to_each_layer() -> None:
    real = [torch.randn(2, 3, 8, 8), 100 * torch.randn(2, 16, 4, 4)]
    for gain, error in ((1.0, 0.0), (0.0, 1.0), (0.5, 0.25), (3.0, 4.0)):
        assert relative_error([gain * layer for layer in real], real).item() == pytest.approx(error)
    assert relative_error([real[0], 0 * real[1]], real).item() == pytest.approx(0.5)
    black = [torch.zeros(1, 3, 8, 8)]  # an image of the mean colour has no size that errors could be relative to
    assert relative_error(black, black).item() == 0.0


def test_a_painter_of_one_colour(config: Config) -> None:
    term, target = Gen(config, Told(), SKELETON, 1), noise(1)
    last = term.painter.paint[0]
    assert isinstance(last, nn.Conv2d)
    assert last.bias is not None
    nn.init.zeros_(last.weight)
    outputs = torch.zeros(1, 2, 4, 4)
    nn.init.zeros_(last.bias)
    assert term.generation(outputs, noise(2), target).item() == pytest.approx(1.0)  # in all layers: they have no bias
    nn.init.constant_(last.bias, 0.5)
    term.features = Pixels()
    half = target.images.reshape(1, 3, 8, 2, 8, 2).mean((3, 5))  # at half the side
    by_hand = (half - 0.5).square().mean() / half.square().mean()
    assert term.generation(outputs, noise(2), target).item() == pytest.approx(by_hand.item())


def test_the_looks_are_the_first_views_and_the_keypoints_the_seconds(config: Config) -> None:
    term, painter = Gen(config, Told(), SKELETON, 1), Copy()
    term.painter = painter
    outputs = torch.stack([peak(1, 2, 100.0), peak(3, 0, 100.0)])[None]
    batch = seen(torch.zeros(1, 2, 4, 4), noise(1), first=noise(1))
    assert term.loss(Told(outputs), batch).item() == 0.0
    batch = seen(torch.zeros(1, 2, 4, 4), noise(1), first=view(fill=0.0))
    assert term.loss(Told(outputs), batch).item() == pytest.approx(WEIGHT)
    across = torch.exp(-torch.tensor([1.0, 0.0, 1.0, 4.0]) / 2)  # a Gaussian of one pixel's width
    down = torch.exp(-torch.tensor([4.0, 1.0, 0.0, 1.0]) / 2)
    torch.testing.assert_close(painter.gaussians[0, 0], down[:, None] * across)
    assert painter.gaussians[0, 1].argmax() == 3


def test_perceptual_features_are_fixed_and_see_what_pixels_do_not(config: Config) -> None:
    term = Gen(config, Told(), SKELETON, 1)
    assert not any(p.requires_grad for p in term.features.parameters())
    image = noise(1).images[:, :, :8, :8]
    layers = term.features(image)
    assert [tuple(layer.shape[1:]) for layer in layers] == [(3, 8, 8), (16, 4, 4), (32, 2, 2)]
    assert torch.equal(layers[0], image)
    torch.testing.assert_close(term.features(2 * image)[2], 2 * layers[2])  # without bias


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
    term = Gen(config, net, problem.labelled.skeleton, 1)
    term.loss(net, unlabelled(config, net, problem)).backward()
    moved = {name: float(p.grad.abs().max()) for name, p in net.named_parameters() if p.grad is not None}
    bias = moved.pop("final_layer.bias")  # a softmax does not see what is added everywhere
    assert len(moved) == len(list(net.parameters())) - 1
    assert min(moved.values()) > 0
    assert bias < 1e-3 * moved["final_layer.weight"]
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in term.painter.parameters())


def test_the_painter_learns_and_needs_the_keypoints(tiny: MakeConfig, problem: Problem) -> None:
    # Images are drawn better from where their keypoints are than from where they are not.
    config = tiny({"augment.rotate": 0, "augment.colour": 0})
    torch.manual_seed(1)
    net = fresh_network(config, 14, 1, CPU)
    term = Gen(config, net, problem.labelled.skeleton, 1)
    batch = unlabelled(config, net, problem)
    outputs = (3 * torch.randn(8, 14, 8, 8)).requires_grad_()
    optimizer = torch.optim.Adam([*term.painter.parameters(), outputs], lr=0.01)
    errors = []
    for _ in range(60):
        error = term.generation(outputs, batch.first, batch.others[0])
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        errors.append(error.item())
    assert errors[-1] < 0.8 * errors[0]
    assert term.generation(outputs.roll(1, 0), batch.first, batch.others[0]).item() > 1.2 * errors[-1]


# --- training


def test_it_trains_and_repeats(tiny: MakeConfig, problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = repeats(Gen, tiny(), problem)
    monkeypatch.setattr(gen, "WEIGHT", 0.0)
    assert repeats(Gen, tiny(), problem) != trained

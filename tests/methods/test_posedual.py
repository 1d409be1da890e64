"""PoseDual: two networks teach each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from lessons import SKELETON, Told, peak, repeats, seen, view
from placl.config import Config
from placl.data.splits import Problem
from placl.learn.course import TrainingSet
from placl.learn.network import fresh_network
from placl.methods.consistency import train_consistently
from placl.methods.posedual import PoseDual
from placl.models.weights import weights_sha256
from placl.models.zoo import KeypointNet

MakeConfig = Callable[..., Config]
CPU = torch.device("cpu")
OF_F = torch.stack([peak(1, 2), peak(2, 1)])[None]
OF_G = torch.stack([peak(3, 3), peak(0, 0)])[None]


@pytest.fixture
def config(tiny: MakeConfig) -> Config:
    return tiny({"model.input_size": 16, "train.loss": "mse"})


def dual(config: Config, f: KeypointNet, g: KeypointNet) -> PoseDual:
    term = PoseDual(config, f, SKELETON, 1)
    term.second = g
    return term


def test_each_is_taught_by_the_other(config: Config) -> None:
    # On the hard view f says what g said of the easy one, but for 0.1; g is off by a half of what f said.
    f, g = Told(OF_G + 0.1), Told(OF_G, OF_F * 0.5)
    loss = dual(config, f, g).loss(f, seen(OF_F, view()))
    assert loss.item() == pytest.approx(0.01 + 0.25 / 16)
    # Each by its own answer: the two peaks, and for f the 0.1 as well.
    f, g = Told(OF_F), Told(OF_G, OF_G)
    assert dual(config, f, g).loss(f, seen(OF_F, view())).item() == pytest.approx(2 * 2 / 16)


def test_labels_teach_the_second_network_too(config: Config) -> None:
    f, g = Told(OF_G), Told(OF_G, OF_F)
    batch = seen(OF_F, view())
    batch = replace(batch, targets=OF_G + 0.2, weights=torch.tensor([[1.0, 0.0]]))  # of the first view, one keypoint
    assert dual(config, f, g).loss(f, batch).item() == pytest.approx(0.04)


def test_joints_are_cut_out_where_the_teacher_found_them(config: Config) -> None:
    torch.manual_seed(0)
    count = 16
    f, g = Told(OF_G.repeat(count, 1, 1, 1)), Told(OF_G.repeat(count, 1, 1, 1), OF_F.repeat(count, 1, 1, 1))
    dual(config, f, g).loss(f, seen(OF_F.repeat(count, 1, 1, 1), view(count)))
    at_g, at_f = ((images[:, 0] == 0).any(0) for images in (f.images[0], g.images[1]))  # (16, 16) ever cut out
    middle = torch.zeros(16, 16, dtype=torch.bool)
    middle[4:12, 4:12] = True  # f's peaks are here, and g's in two corners
    assert at_f[middle].sum() > 10
    assert at_g[~middle].sum() > 10
    assert at_f[:2, :2].sum() == at_f[14:, 14:].sum() == at_g[6:10, 6:10].sum() == 0
    assert torch.equal(g.images[0], view(count).images)  # the easy view is whole


def test_gradients_reach_both_through_their_hard_views_alone(config: Config) -> None:
    outputs = OF_F.clone().requires_grad_()
    easy_of_g = OF_G.clone().requires_grad_()
    f, g = Told(torch.full((1, 2, 4, 4), 0.5)), Told(easy_of_g, torch.full((1, 2, 4, 4), 0.5))
    dual(config, f, g).loss(f, seen(outputs, view())).backward()
    assert outputs.grad is None
    assert not easy_of_g.grad.any()  # of labels, of which there are none
    for network in (f, g):
        assert network.gain.grad is not None
        assert network.gain.grad.item() == pytest.approx((15 * 0.5 - 0.5) / 16)


def test_the_second_network_is_another_one_and_trained(tiny: MakeConfig, problem: Problem) -> None:
    config, terms = tiny(), list[PoseDual]()

    def remember(*given: object) -> PoseDual:
        terms.append(PoseDual(*given))
        return terms[-1]

    data = TrainingSet(problem.labelled, problem.unlabelled)
    trained = train_consistently(config, data, remember, 5, threads=1)
    fresh = fresh_network(config, len(problem.labelled.skeleton), 5, CPU)
    untouched = PoseDual(config, fresh, problem.labelled.skeleton, 5)
    assert weights_sha256(untouched.second) != weights_sha256(fresh)
    pairs = zip(terms[0].second.parameters(), untouched.second.parameters(), strict=True)
    assert all(not torch.equal(after, before) for after, before in pairs)
    assert trained.net is not terms[0].second


def test_a_few_steps_repeat_bit_for_bit(tiny: MakeConfig, problem: Problem) -> None:
    repeats(PoseDual, tiny(), problem)

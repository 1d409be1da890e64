"""CycleGAN + PL: labels of translations, the rate of the generators, and the two stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from across import batch_of, moved
from lessons import repeats
from placl.config import Config
from placl.data.splits import Problem
from placl.lab import Lab
from placl.methods.cyclegan_pl import RATE, Translated, cyclegan_pl

MakeConfig = Callable[..., Config]
MakeLab = Callable[..., Lab]


def test_translations_keep_their_labels(tiny: MakeConfig, problem: Problem) -> None:
    term, net, seen = batch_of(Translated, tiny(), problem)
    net.eval()
    targets, weights = torch.rand(8, 14, 8, 8), torch.ones(8, 14)
    seen = replace(seen, targets=targets, weights=weights)
    known = seen.labelled
    source = seen.first.images[known]
    nn.init.normal_(term.translation.to_target.out[0].weight)
    found = term.labels_of_translations(net, source, seen)
    # All weights are 1: the mean of the cross-entropies of all pixels.
    outputs = net(term.translation.to_target(source))
    expected = F.binary_cross_entropy_with_logits(outputs, targets[known])
    assert found.item() == pytest.approx(expected.item(), rel=1e-4)
    found.backward()
    assert moved(net) == {name for name, _ in net.named_parameters()}
    assert moved(term) == set()  # keypoints do not train generators


def test_images_train_generators_and_discriminators_alone(tiny: MakeConfig, problem: Problem) -> None:
    term, net, seen = batch_of(Translated, tiny(), problem)
    for generator in (term.translation.to_target, term.translation.to_source):
        nn.init.normal_(generator.out[0].weight, std=0.1)
    term.loss(net, seen).backward()  # without labels
    assert moved(net) == set()
    reached = moved(term)
    for part in ("to_target.into.1", "to_source.block.0", "is_target.layers.0", "is_source.layers.4"):
        assert f"translation.{part}.weight" in reached


def test_without_a_target_there_is_nothing_to_translate(tiny: MakeConfig, problem: Problem) -> None:
    term, net, seen = batch_of(Translated, tiny(), problem)
    assert term.loss(net, replace(seen, labelled=torch.ones(8, dtype=torch.bool))).item() == 0.0


def test_generators_have_the_published_rate(tiny: MakeConfig, problem: Problem) -> None:
    config = tiny({"train.lr": 0.02})
    term, net, _ = batch_of(Translated, config, problem)
    network, own = term.groups(net)
    assert own["pace"] * config.train.lr == pytest.approx(RATE)
    assert network["pace"] == 1.0
    everyone = [*net.parameters(), *term.parameters()]
    assert {id(p) for group in (network, own) for p in group["params"]} == {id(p) for p in everyone}


def test_it_trains_and_repeats(tiny: MakeConfig, problem: Problem) -> None:
    repeats(Translated, tiny(), problem)


def test_the_target_is_labelled_by_what_saw_translations(tiny: MakeConfig, make_lab: MakeLab, problem: Problem) -> None:
    lab = make_lab(tiny({"method": "cyclegan_pl"}))
    first, last = cyclegan_pl(lab)
    assert (first.name, last.name) == ("translated", "round_1")
    assert first.images == last.images == 2 * 2 * 8
    assert last.selected[0] > 0.9  # all but ties at the bottom
    assert (lab.run.path / "round_1" / "pseudo_labels" / "keypoints.npy").exists()

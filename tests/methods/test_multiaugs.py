"""MultiAugs: one easy view teaches three hard ones, each hard in its own way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from lessons import SKELETON, Told, peak, repeats, seen, view
from placl.config import Config
from placl.data.splits import Problem
from placl.methods.multiaugs import MultiAugs, with_others_joints
from placl.methods.posecons import lesson
from placl.methods.views import View

MakeConfig = Callable[..., Config]
OUTPUTS = torch.stack([peak(1, 2), peak(2, 1)])[None]


@pytest.fixture
def config(tiny: MakeConfig) -> Config:
    return tiny({"model.input_size": 16, "train.loss": "mse"})


def test_the_loss_by_hand(config: Config) -> None:
    # Off by 0.5, by 0 and by 0.1 at every pixel.
    student = Told(torch.full((1, 2, 4, 4), 0.5), OUTPUTS, OUTPUTS + 0.1)
    loss = MultiAugs(config, student, SKELETON, 1).loss(student, seen(OUTPUTS, view(), view(), view()))
    assert loss.item() == pytest.approx((0.25 + 0.0 + 0.01) / 3)


def test_every_path_has_its_own_view_and_lesson(config: Config) -> None:
    # Three views, the same student answer: what each is taught is what the easy view's peaks are in that view.
    views = (view(fill=1.0), view(x=4.0, fill=2.0), view(mirrored=True, fill=3.0))
    exact = (OUTPUTS, torch.stack([peak(0, 2), peak(1, 1)])[None], torch.stack([peak(1, 1), peak(2, 2)])[None])
    student = Told(*exact)
    loss = MultiAugs(config, student, SKELETON, 1).loss(student, seen(OUTPUTS, *views))
    assert loss.item() == pytest.approx(0, abs=1e-6)
    assert [images.max().item() for images in student.images] == [1.0, 2.0, 3.0]


def test_paths_are_hard_in_different_ways(config: Config) -> None:
    torch.manual_seed(0)
    outputs = OUTPUTS.repeat(4, 1, 1, 1)
    student = Told(outputs, outputs, outputs)
    plain = view(4)
    coloured = View(plain.images * torch.arange(1.0, 5.0)[:, None, None, None], plain.matrix, plain.mirrored)
    MultiAugs(config, student, SKELETON, 1).loss(student, seen(outputs, coloured, coloured, coloured))
    as_it_is, grey, others = student.images
    assert torch.equal(as_it_is, coloured.images)
    for image, own in zip(grey, (1.0, 2.0, 3.0, 4.0), strict=True):
        assert image.unique().tolist() == [0.0, own]
    for image, own, before in zip(others, (1.0, 2.0, 3.0, 4.0), (4.0, 1.0, 2.0, 3.0), strict=True):
        assert image.unique().tolist() == sorted([own, before])


def test_a_batch_of_one_has_no_other_image(config: Config) -> None:
    term, hard = MultiAugs(config, Told(), SKELETON, 1), view()
    given = lesson(term, OUTPUTS, seen(OUTPUTS, hard), hard)
    assert torch.equal(with_others_joints(hard, given).images, hard.images)


def test_gradients_go_through_the_hard_views_alone(config: Config) -> None:
    outputs = OUTPUTS.clone().requires_grad_()
    student = Told(torch.full((1, 2, 4, 4), 0.5), OUTPUTS, OUTPUTS)
    MultiAugs(config, student, SKELETON, 1).loss(student, seen(outputs, view(), view(), view())).backward()
    assert outputs.grad is None
    assert student.gain.grad is not None
    assert student.gain.grad.item() == pytest.approx((15 * 0.5 - 0.5) / 16 / 3)  # of the first path


def test_a_few_steps_repeat_bit_for_bit(tiny: MakeConfig, problem: Problem) -> None:
    repeats(MultiAugs, tiny(), problem)

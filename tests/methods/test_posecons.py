"""PoseCons: a network's answer on an easy view is its lesson for a hard one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from lessons import SKELETON, Told, peak, repeats, seen, view
from placl.config import Config
from placl.data.splits import Problem
from placl.methods.posecons import SURE, PoseCons, lesson, without_joints

MakeConfig = Callable[..., Config]


@pytest.fixture
def config(tiny: MakeConfig) -> Config:
    return tiny({"model.input_size": 16, "train.loss": "mse"})


def term_of(config: Config) -> PoseCons:
    return PoseCons(config, Told(), SKELETON, 1)


def test_the_loss_by_hand(config: Config) -> None:
    outputs = torch.stack([peak(1, 2), peak(3, 0, height=SURE / 2)])[None]  # the second is not sure enough
    student = Told(torch.full((1, 2, 4, 4), 0.5))
    loss = term_of(config).loss(student, seen(outputs, view()))
    # Every pixel of the first is off by a half, 0.5^2, and the second counts as a zero.
    assert loss.item() == pytest.approx(0.25 / 2)
    assert torch.equal(student.images[0], view().images)  # nothing is cut out


def test_what_the_teacher_did_not_see_teaches_nothing(config: Config) -> None:
    outputs = torch.stack([peak(1, 2), peak(2, 1)])[None]
    student = Told(torch.full((1, 2, 4, 4), 0.5))
    # The hard view shows a heatmap pixel more on the right, and the peaks a pixel further left.
    hard = view(x=4.0)
    given = lesson(term_of(config), outputs, seen(outputs, hard), hard)
    assert given.known[0, 0].tolist() == [[1.0, 1.0, 1.0, 0.0]] * 4
    torch.testing.assert_close(given.heatmaps[0], torch.stack([peak(0, 2), peak(1, 1)]), atol=1e-5, rtol=0)
    assert given.points.tolist() == [[[1.5, 9.5], [5.5, 5.5]]]
    loss = term_of(config).loss(student, seen(outputs, hard))
    assert loss.item() == pytest.approx(0.25 * 12 / 16)


def test_a_keypoint_that_the_hard_view_leaves_out_is_not_taught(config: Config) -> None:
    outputs = torch.stack([peak(0, 2), peak(2, 1)])[None]
    hard = view(x=8.0)
    assert lesson(term_of(config), outputs, seen(outputs, hard), hard).sure.tolist() == [[0.0, 1.0]]


def test_a_mirrored_view_swaps_the_lesson(config: Config) -> None:
    outputs = torch.stack([peak(0, 2), peak(2, 1)])[None]
    hard = view(mirrored=True)
    given = lesson(term_of(config), outputs, seen(outputs, hard), hard)
    torch.testing.assert_close(given.heatmaps[0], torch.stack([peak(1, 1), peak(3, 2)]), atol=1e-5, rtol=0)


def test_labels_are_the_lesson_of_labelled_images(config: Config) -> None:
    # Two images: the network says the same of both, and the first is labelled otherwise; its second keypoint is not.
    outputs = torch.stack([peak(1, 2), peak(2, 1)]).repeat(2, 1, 1, 1)
    term, hard = term_of(config), view(2, mirrored=True)
    keypoints = torch.zeros(2, 2, 2)
    keypoints[0, 0] = torch.tensor([13.5, 1.5])
    batch = replace(
        seen(outputs, hard),
        labelled=torch.tensor([True, False]),
        keypoints=keypoints,
        weights=torch.tensor([[1.0, 0.0], [0.0, 0.0]]),
    )
    given = lesson(term, outputs, batch, hard)
    assert given.sure.tolist() == [[0.0, 1.0], [1.0, 1.0]]  # a mirror makes the left keypoint the right one
    assert given.found.tolist() == [[0.0, 0.0], [1.0, 1.0]]  # by the teacher
    expected, _ = term.codec.encode(torch.tensor([[[1.5, 1.5]]]), torch.ones(1, 1))
    torch.testing.assert_close(given.heatmaps[0, 1], expected[0, 0])
    assert given.heatmaps[0, 1].argmax() == 0
    assert given.heatmaps[1, 1].argmax() == peak(2, 2).argmax()


def test_gradients_go_through_the_hard_view_alone(config: Config) -> None:
    outputs = torch.stack([peak(1, 2), peak(2, 1)])[None].requires_grad_()
    student = Told(torch.full((1, 2, 4, 4), 0.5))
    term_of(config).loss(student, seen(outputs, view())).backward()
    assert outputs.grad is None
    assert student.gain.grad is not None
    # d/dg of the mean of (g / 2 - t)^2 with t = 1 at one of 16 pixels.
    assert student.gain.grad.item() == pytest.approx((15 * 0.5 - 0.5) / 16)


def test_unlabelled_images_alone_move_a_network(tiny: MakeConfig, one_conv: str, problem: Problem) -> None:
    from placl.models.zoo import create

    config = tiny({"train.loss": "bce"})
    net = create(one_conv, len(problem.labelled.skeleton))
    term = PoseCons(config, net, problem.labelled.skeleton, 1)
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    easy, hard = (replace(view(2), images=some) for some in (images, images.flip(0)))
    loss = term.loss(net, seen(net(images), hard, first=easy))
    loss.backward()
    gradient = net.get_parameter("conv.weight").grad
    assert gradient is not None
    assert torch.isfinite(gradient).all()
    assert gradient.abs().max() > 0


def test_a_sure_teacher_has_joints_cut_out(config: Config) -> None:
    torch.manual_seed(0)
    outputs = torch.stack([peak(1, 2), peak(3, 0, height=SURE / 2)]).repeat(8, 1, 1, 1)
    hard = view(8)
    given = lesson(term_of(config), outputs, seen(outputs, hard), hard)
    cut = without_joints(hard, given).images == 0
    assert cut.flatten(1).any(1).all()
    assert not cut[:, :, :4, 12:].any()  # the joint that it is not sure of
    assert not (hard.images == 0).any()  # which is a view of its own


def test_a_few_steps_repeat_bit_for_bit(tiny: MakeConfig, problem: Problem) -> None:
    first = repeats(PoseCons, tiny(), problem)
    assert repeats(PoseCons, tiny({"train.loss": "mse"}), problem) != first

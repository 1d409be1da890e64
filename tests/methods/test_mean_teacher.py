"""Mean Teacher: the mean of a network's past teaches it, and is what is kept."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from lessons import SKELETON, STRIDE, Told, peak, repeats, seen, view
from placl.config import Config
from placl.data.splits import Problem
from placl.learn.course import TrainingSet
from placl.methods.consistency import train_consistently
from placl.methods.mean_teacher import MOMENTUM, MeanTeacher, momentum_at
from placl.models.zoo import KeypointNet

MakeConfig = Callable[..., Config]
SAID = torch.stack([peak(1, 2), peak(2, 1)])[None]


@pytest.fixture
def config(tiny: MakeConfig) -> Config:
    return tiny({"model.input_size": 16, "train.loss": "mse"})


def taught(config: Config, student: KeypointNet, teacher: KeypointNet) -> MeanTeacher:
    term = MeanTeacher(config, student, SKELETON, 1)
    term.teacher = teacher.requires_grad_(False)
    return term


def test_the_loss_by_hand(config: Config) -> None:
    student, teacher = Told(SAID * 0.5), Told(SAID)
    # What the student says of the easy view, which it is asked for its labels, does not matter.
    loss = taught(config, student, teacher).loss(student, seen(torch.rand(1, 2, 4, 4), view(fill=2.0)))
    assert loss.item() == pytest.approx(0.25 / 16)
    assert torch.equal(teacher.images[0], view().images)
    assert student.images[0].max() == 2.0


def test_joints_are_cut_out_of_the_students_view(config: Config) -> None:
    torch.manual_seed(0)
    many = SAID.repeat(8, 1, 1, 1)
    student, teacher = Told(many), Told(many)
    taught(config, student, teacher).loss(student, seen(many, view(8)))
    assert (student.images[0] == 0).flatten(1).any(1).all()
    assert not (teacher.images[0] == 0).any()


def test_gradients_reach_the_student_alone(config: Config) -> None:
    outputs = SAID.clone().requires_grad_()
    student, teacher = Told(torch.full((1, 2, 4, 4), 0.5)), Told(SAID)
    taught(config, student, teacher).loss(student, seen(outputs, view())).backward()
    assert outputs.grad is None
    assert teacher.gain.grad is None
    assert student.gain.grad is not None
    assert student.gain.grad.item() == pytest.approx((15 * 0.5 - 0.5) / 16)


def test_a_teacher_is_the_mean_of_its_student(config: Config) -> None:
    student = Told()
    term = MeanTeacher(config, student, SKELETON, 1)
    expected = 1.0
    for step, now in enumerate((3.0, -1.0, 4.0)):
        student.gain.data.fill_(now)
        term.after_step(student)
        expected = momentum_at(step) * expected + (1 - momentum_at(step)) * now
        assert term.teacher.get_parameter("gain").item() == pytest.approx(expected)
    assert student.gain.item() == 4.0
    assert term.result(student) is term.teacher


def test_momentum_rises_from_a_copy_to_its_limit() -> None:
    momenta = [momentum_at(step) for step in range(20_000)]
    assert momenta[0] == 0.0
    assert all(a <= b for a, b in pairwise(momenta))
    assert momenta[-1] == MOMENTUM


class Normalised(KeypointNet):
    stride = STRIDE

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 2, 4, 4), nn.BatchNorm2d(2)

    def forward(self, images: Tensor) -> Tensor:
        heatmaps: Tensor = self.norm(self.conv(images))
        return heatmaps


def test_normalisation_follows_the_teachers_own_activations(config: Config) -> None:
    torch.manual_seed(0)
    net = Normalised()
    term = MeanTeacher(config, net, SKELETON, 1)
    with torch.no_grad():
        net.conv.weight.mul_(5)  # the student has moved on
    easy = view(4, fill=1.5)
    term.loss(net, seen(torch.zeros(4, 2, 4, 4), view(4, fill=-3.0), first=easy))
    teacher = term.teacher
    activations = teacher.get_submodule("conv")(easy.images)
    mean = teacher.get_buffer("norm.running_mean")
    torch.testing.assert_close(mean, 0.1 * activations.mean((0, 2, 3)))  # from zero, a tenth of the way
    before = mean.clone()
    term.after_step(net)
    assert torch.equal(teacher.get_buffer("norm.running_mean"), before)


def test_no_optimiser_touches_the_teacher(tiny: MakeConfig, problem: Problem) -> None:
    weights: list[list[Tensor]] = []

    class Watched(MeanTeacher):
        def after_step(self, net: KeypointNet) -> None:
            before = [value.clone() for value in self.teacher.parameters()]
            if weights:
                assert all(torch.equal(a, b) for a, b in zip(weights[-1], before, strict=True))
            super().after_step(net)
            weights.append([value.clone() for value in self.teacher.parameters()])

    data = TrainingSet(problem.labelled, problem.unlabelled)
    trained = train_consistently(tiny(), data, Watched, 5, threads=1)
    assert len(weights) == 4
    for kept, last in zip(trained.net.parameters(), weights[-1], strict=True):
        assert torch.equal(kept, last)


def test_a_few_steps_repeat_bit_for_bit(tiny: MakeConfig, problem: Problem) -> None:
    repeats(MeanTeacher, tiny(), problem)

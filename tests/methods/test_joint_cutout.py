"""Squares over some of the joints that were found."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from placl.methods import joint_cutout
from placl.methods.joint_cutout import JOINTS, SIDE, SPREAD, joint_squares


def test_squares_lie_at_joints_that_were_found() -> None:
    torch.manual_seed(0)
    points = torch.tensor([[[30.0, 40.0], [100.0, 20.0], [70.0, 90.0]]]).repeat(200, 1, 1)
    found = torch.tensor([[1.0, 0.0, 1.0]]).repeat(200, 1)
    squares = joint_squares(points, found, 128)
    assert squares.shape == (200, 1, 128, 128)
    assert squares.dtype == torch.bool
    centres = []
    for image in squares[:, 0]:
        labels, count = ndimage.label(image.numpy())
        assert count == 2  # far enough from each other never to touch
        for y, x in ndimage.find_objects(labels):
            assert SIDE[0] * 128 - 1 <= y.stop - y.start <= SIDE[1] * 128 + 1
            assert abs((y.stop - y.start) - (x.stop - x.start)) <= 1  # as its place between pixels has it
        centres.append([[x, y] for y, x in ndimage.center_of_mass(image.numpy(), labels, [1, 2])])
    away = torch.tensor(centres) - torch.tensor([[30.0, 40.0], [70.0, 90.0]])
    assert away.mean((0, 1)).abs().max() < 1.0
    assert abs(float(away.std()) - SPREAD * 128) < 0.6


def test_a_few_joints_of_many() -> None:
    torch.manual_seed(0)
    grid = torch.tensor([[x, y] for x in (40.0, 120.0, 200.0) for y in (40.0, 120.0, 200.0)])
    squares = joint_squares(grid.expand(20, -1, -1), torch.ones(20, 9), 240)
    counts = [ndimage.label(image.numpy())[1] for image in squares[:, 0]]
    assert counts == [JOINTS] * 20
    times = torch.stack([squares[:, 0, int(y), int(x)] for x, y in grid]).float().mean(1)
    assert times.min() > 0  # none is always left out


def test_without_joints_nothing_is_covered() -> None:
    points = torch.full((2, 3, 2), 20.0)
    assert not joint_squares(points, torch.zeros(2, 3), 64).any()
    assert not joint_squares(points + torch.nan, torch.zeros(2, 3), 64).any()


def test_the_generator_decides_and_is_used_as_much_whatever_is_found() -> None:
    points = torch.full((2, 7, 2), 20.0)
    drawn = []
    for found in (torch.ones(2, 7), torch.ones(2, 7), torch.zeros(2, 7)):
        torch.manual_seed(3)
        drawn.append((joint_squares(points, found, 64), torch.rand(1)))
    assert torch.equal(drawn[0][0], drawn[1][0])
    assert drawn[0][1] == drawn[1][1] == drawn[2][1]
    assert not torch.equal(joint_squares(points, torch.ones(2, 7), 64), drawn[0][0])


@given(x=st.floats(-20, 90), y=st.floats(-20, 90), seed=st.integers(0, 1000))
@settings(deadline=None)
def test_a_square_is_around_its_centre_and_cut_off_at_the_border(x: float, y: float, seed: int) -> None:
    torch.manual_seed(seed)
    sure = torch.zeros(1, 2)
    sure[0, 1] = 1
    before = torch.get_rng_state()
    squares = joint_squares(torch.tensor([[[32.0, 32.0], [x, y]]]), sure, 64)[0, 0]
    torch.set_rng_state(before)
    u, away = torch.rand(2, 1, 2), torch.randn(1, 2, 2)
    half = 32 * (joint_cutout.SIDE[0] + (joint_cutout.SIDE[1] - joint_cutout.SIDE[0]) * float(u[1, 0, 1]))
    centre_x, centre_y = x + 64 * SPREAD * float(away[0, 1, 0]), y + 64 * SPREAD * float(away[0, 1, 1])
    for row in range(0, 64, 3):
        for column in range(0, 64, 3):
            dx, dy = abs(column - centre_x), abs(row - centre_y)
            if abs(max(dx, dy) - half) > 1e-3:
                assert bool(squares[row, column]) == (max(dx, dy) < half)

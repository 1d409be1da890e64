"""The heatmap losses, and how the network's answer becomes a confidence under each of them.

``mse`` is the paper's: the network answers with heatmaps. ``bce`` lets it answer with logits, whose sigmoid is a
probability; it learns much faster from random weights.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

LossKind = Literal["mse", "bce"]


def heatmap_loss(
    kind: LossKind, outputs: Tensor, targets: Tensor, weights: Tensor, total: Tensor | None = None
) -> Tensor:
    """Outputs and targets (B, K, H, W), weights (B, K) -> scalar: sum(w * mean over pixels) / max(sum(w), 1).

    ``total`` is the sum of weights where these are a part of a batch, so that the parts' losses add up to the whole's.

    Dividing by the weights keeps instances with few visible keypoints from being diluted. HRNet's JointsMSELoss
    divides by B * K instead and halves, so with all weights 1 our ``mse`` is twice HRNet's. A keypoint of weight 0
    has exactly zero gradient whatever its target holds, and a batch of such keypoints has loss 0.
    """
    # Masked before the arithmetic: 0 * NaN would be NaN, forwards and backwards.
    targets = torch.where((weights > 0)[..., None, None], targets, 0.0)
    if kind == "mse":
        errors = F.mse_loss(outputs, targets, reduction="none")  # (B, K, H, W)
    elif kind == "bce":
        errors = F.binary_cross_entropy_with_logits(outputs, targets, reduction="none")
    else:
        raise ValueError(f"the loss is mse or bce, got {kind!r}")
    per_keypoint = errors.mean(dim=(-2, -1))  # (B, K)
    return (weights * per_keypoint).sum() / (weights.sum() if total is None else total).clamp(min=1.0)


def answer(kind: LossKind, outputs: Tensor) -> Tensor:
    """The network's outputs as heatmaps: probabilities for ``bce``, as they are for ``mse``.

    ``mse`` outputs may leave [0, 1]; they are not clamped here, because a flattened peak would move the argmax.
    """
    if kind == "bce":
        return torch.sigmoid(outputs)
    if kind == "mse":
        return outputs
    raise ValueError(f"the loss is mse or bce, got {kind!r}")

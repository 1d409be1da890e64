"""Muon (Jordan et al. 2024): momentum whose matrices are made orthogonal, so that every direction is learned as fast.

    M <- b M + (1 - b) G,   U = orthogonal((1 - b) G + b M),   W <- (1 - lr decay) W - lr 0.2 sqrt(max(rows, columns)) U

The factor gives an update the size that AdamW's typically has (Liu et al. 2025), so that both take similar rates. A
convolution is a matrix whose rows are its first axis; what has less than two axes is left to Adam.

timm and torch have it too. Theirs orthogonalise in bfloat16, which takes CPUs without instructions for it twice as long
as the rest of a training step. Here it is done in the weights' precision, and on small matrices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

# An odd polynomial that, applied again and again, brings singular values in (0, 1] near 1: 0.7 to 1.2, which will do.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
STEPS = 5
LIKE_ADAMW = 0.2  # the root mean square of AdamW's updates, over the rate
SMALLEST = 1e-7  # norm of a matrix that is divided by


class Muon(torch.optim.Optimizer):
    """``stacked`` parameters hold several networks: their first axis counts those, and each has matrices of its own."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        weight_decay: float = 0.0,
        *,
        momentum: float = 0.9,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        stacked: bool = False,
    ) -> None:
        settings = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "betas": betas, "eps": eps}
        super().__init__(params, settings)
        self._axes = 3 if stacked else 2  # that a weight has at the least, to be a matrix

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        if closure is not None:
            raise ValueError("Muon takes a step by the gradients that are there, and calls nothing for others")
        for group in self.param_groups:
            trained = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not trained:
                continue
            torch._foreach_mul_(trained, 1 - group["lr"] * group["weight_decay"])
            self._turn([parameter for parameter in trained if parameter.ndim >= self._axes], group)
            self._adam([parameter for parameter in trained if parameter.ndim < self._axes], group)

    def _turn(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        """Orthogonal updates."""
        if not parameters:
            return
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        means = self._states("momentum", parameters)
        torch._foreach_lerp_(means, gradients, 1 - group["momentum"])
        ahead = torch._foreach_lerp(gradients, means, group["momentum"])  # Nesterov's
        inward = [_in_memory_order(tensor) for tensor in ahead]
        updates = orthogonal([tensor.flatten(self._axes - 1) for tensor in inward])
        for parameter, update, form in zip(parameters, updates, inward, strict=True):
            size = LIKE_ADAMW * max(update.shape[-2:]) ** 0.5
            _in_memory_order(parameter).add_(update.view(form.shape), alpha=-group["lr"] * size)

    def _adam(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        if not parameters:
            return
        (first, second), gradients = group["betas"], [p.grad for p in parameters if p.grad is not None]
        counts, means, squares = (self._states(name, parameters) for name in ("step", "mean", "square"))
        torch._foreach_add_(counts, 1.0)
        steps = torch.stack(counts).tolist()  # each its own: a method may train one part now and another then
        torch._foreach_lerp_(means, gradients, 1 - first)
        torch._foreach_mul_(squares, second)
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - second)
        deviations = torch._foreach_sqrt(torch._foreach_div(squares, [1 - second**count for count in steps]))
        torch._foreach_add_(deviations, group["eps"])
        rates = [-group["lr"] / (1 - first**count) for count in steps]
        torch._foreach_addcdiv_(parameters, means, deviations, rates)

    def _states(self, name: str, parameters: list[Tensor]) -> list[Tensor]:
        for parameter in parameters:
            if name not in self.state[parameter]:
                zero = torch.zeros((), device="cpu") if name == "step" else torch.zeros_like(parameter)
                self.state[parameter][name] = zero
        return [self.state[parameter][name] for parameter in parameters]


def _in_memory_order(weight: Tensor) -> Tensor:
    """Channels last where they lie so in memory: flattening copies nothing. The order of columns does not matter."""
    last = weight.ndim == 4 and weight.is_contiguous(memory_format=torch.channels_last)
    return weight.permute(0, 2, 3, 1) if last else weight


def orthogonal(matrices: list[Tensor]) -> list[Tensor]:
    """(m, n) or (networks, m, n) matrices with their singular values brought near 1: U V^T, nearly.

    Every step multiplies X by a polynomial of X X^T, and polynomials of one matrix commute. So their product is made of
    m x m matrices, those of all layers of one width at once, and X, in a convolution nine times as wide, is multiplied
    once.
    """
    wide = [x if x.shape[-2] <= x.shape[-1] else x.mT for x in matrices]
    wide = [x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=SMALLEST) for x in wide]
    alike: dict[int, list[int]] = defaultdict(list)
    for number, x in enumerate(wide):
        alike[x.shape[-2]].append(number)
    for numbers in alike.values():
        squares = torch.stack([wide[number] @ wide[number].mT for number in numbers])
        for number, product in zip(numbers, _products(squares), strict=True):
            wide[number] = product @ wide[number]
    return [x if x.shape == given.shape else x.mT for x, given in zip(wide, matrices, strict=True)]


def _products(squares: Tensor) -> Tensor:
    """(..., m, m) X X^T -> what X is to be multiplied by."""
    a, b, c = COEFFICIENTS
    identity = torch.eye(squares.shape[-1], dtype=squares.dtype, device=squares.device)
    product = identity
    for step in range(STEPS):
        factor = torch.add(b * squares + a * identity, squares @ squares, alpha=c)
        product = factor @ product
        if step + 1 < STEPS:
            squares = factor @ squares @ factor
    return product

"""The curriculum policy (3.5): PPO2 on independent truncated normals, one per epoch group.

mu is the policy's only parameter, sigma is fixed. What is optimised is the logit of mu's place in the support, so
that mu never leaves it. Several clipped updates (Eq. 4) are made on each step's M samples.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from placl.config import Search
from placl.curriculum import truncated_normal
from placl.curriculum.curriculum import Curriculum
from placl.curriculum.fixed import first_curriculum

EDGE = 0.02  # how near to an end of its support mu may start: a logit cannot say 0 or 1


class PPO2:
    """Searches residuals Delta around ``base`` (3.4); ``tied`` makes one threshold serve all groups."""

    def __init__(self, settings: Search, base: np.ndarray, seed: int, tied: bool = False) -> None:
        self.settings = settings
        self.steps = settings.steps
        self.groups = len(base)
        self.base = torch.tensor(base[:1] if tied else base, dtype=torch.float64)  # (Gamma^{r-1})*
        literal = settings.residual_support == "paper"
        self.low = torch.zeros_like(self.base) if literal else -self.base  # support of Delta
        self.high = torch.ones_like(self.base) if literal else 1 - self.base
        first = torch.from_numpy(first_curriculum(settings, len(self.base)).array)  # mu_1 of round 1
        start = torch.zeros_like(self.base) if np.any(base) else first
        place = ((start - self.low) / (self.high - self.low)).clamp(EDGE, 1 - EDGE)
        self.logit = torch.logit(place).requires_grad_()
        self.optimizer = torch.optim.Adam([self.logit], lr=settings.lr)
        self.random = np.random.default_rng([seed, 2])
        self.delta = torch.empty(0)  # (M, N_G), the last samples
        self.history: list[tuple[float, Curriculum]] = []  # (mean reward, mu_t) of every step
        self.best_sample: tuple[float, Curriculum] = (-np.inf, self.curriculum(self.mu.detach()))

    @property
    def mu(self) -> Tensor:
        return self.low + (self.high - self.low) * torch.sigmoid(self.logit)

    def curriculum(self, delta: Tensor) -> Curriculum:
        """Gamma = base + Delta, clipped to [0, 1] (which does something only in the literal reading)."""
        thresholds = (self.base + delta).clamp(0, 1).expand(self.groups)
        return Curriculum(tuple(float(t) for t in thresholds))

    def ask(self, count: int) -> list[Curriculum]:
        """Delta_j ~ N_trunc(mu_t, sigma^2 I), j = 1..M."""
        uniform = torch.from_numpy(self.random.random((count, len(self.base))))
        self.delta = truncated_normal.sample(uniform, self.mu.detach(), self.settings.sigma, self.low, self.high)
        return [self.curriculum(delta) for delta in self.delta]

    def log_policy(self) -> Tensor:
        """(M, N_G) log pi_mu of the last samples, per dimension."""
        return truncated_normal.log_density(self.delta, self.mu, self.settings.sigma, self.low, self.high)

    def tell(self, rewards: np.ndarray) -> dict[str, float]:
        """Climb J(mu) (Eq. 4) on the last samples."""
        xi = torch.as_tensor(rewards, dtype=torch.float64)
        self._remember(xi)
        log_ratio = self.climb((xi - xi.mean())[:, None])  # xi tilde
        ratio = torch.exp(log_ratio)
        return {
            "reward_mean": float(xi.mean()),
            "reward_std": float(xi.std(correction=0)),
            "reward_max": float(xi.max()),
            "clip_fraction": float(((ratio - 1).abs() > self.settings.clip).double().mean()),
            "approx_kl": float((ratio - 1 - log_ratio).mean()),
        }

    def climb(self, advantage: Tensor) -> Tensor:
        """The updates on one step's samples, whose advantage is (M, 1); returns (M, N_G) log pi_mu - log pi_mu_t."""
        old = self.log_policy().detach()
        for _ in range(self.settings.updates):
            self.optimizer.zero_grad()
            torch.autograd.backward(-self.objective(advantage, old))
            self.optimizer.step()
        return self.log_policy().detach() - old

    def objective(self, advantage: Tensor, old: Tensor) -> Tensor:
        """J(mu), Eq. 4, with ratio and clip per dimension; ``old`` is log pi_mu_t."""
        ratio = torch.exp(self.log_policy() - old)
        clipped = ratio.clamp(1 - self.settings.clip, 1 + self.settings.clip)
        return torch.minimum(ratio * advantage, clipped * advantage).mean()

    def _remember(self, xi: Tensor) -> None:
        self.history.append((float(xi.mean()), self.curriculum(self.mu.detach())))
        j = int(xi.argmax())
        if float(xi[j]) > self.best_sample[0]:
            self.best_sample = float(xi[j]), self.curriculum(self.delta[j])

    def best(self) -> Curriculum:
        """(Gamma^r)* = argmax over mu_t of the mean reward of its samples, or as ``pick`` says."""
        if self.settings.pick == "best":
            return self.best_sample[1]
        if self.settings.pick == "last" or not self.history:
            return self.curriculum(self.mu.detach())
        return max(self.history, key=lambda step: step[0])[1]

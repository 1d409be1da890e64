"""The curriculum policy: its objective by hand, clipping, residuals, the winner, and that it climbs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import truncnorm

from placl.config import Search
from placl.curriculum.curriculum import Curriculum
from placl.curriculum.ppo2 import EDGE, PPO2
from placl.curriculum.random import Random

SETTINGS = Search(steps=16, samples=8)


def policy(base: np.ndarray | None = None, seed: int = 0, **changes: object) -> PPO2:
    return PPO2(SETTINGS.model_copy(update=changes), np.zeros(1) if base is None else base, seed)


def with_samples(searcher: PPO2, *samples: list[float]) -> PPO2:
    searcher.delta = torch.tensor(samples, dtype=torch.float64)
    return searcher


def density(x: float, mean: float) -> float:
    return float(truncnorm(-mean / 0.2, (1 - mean) / 0.2, loc=mean, scale=0.2).pdf(x))


def mean_of(searcher: PPO2) -> np.ndarray:
    return searcher.curriculum(searcher.mu.detach()).array


# --- the objective and one step


def test_the_gradient_of_the_objective_by_hand() -> None:
    # mu = 0.5, samples 0.4 and 0.6, rewards 1 and 2: advantages -1/2 and 1/2, all ratios 1.
    # dJ/dmu = mean of A_j (x_j - mu) / sigma^2 = (1/2 * 2.5 + 1/2 * 2.5) / 2 = 1.25; the normaliser's part is the same
    # for both samples and cancels. dmu/dlogit = 0.25 at the middle.
    searcher = with_samples(policy(), [0.4], [0.6])
    old = searcher.log_policy().detach()
    searcher.objective(torch.tensor([[-0.5], [0.5]], dtype=torch.float64), old).backward()
    assert searcher.logit.grad is not None
    assert searcher.logit.grad.item() == pytest.approx(1.25 * 0.25, rel=1e-12)


def test_the_objective_takes_the_smaller_of_ratio_and_clip() -> None:
    searcher = with_samples(policy(), [0.3], [0.9])
    old = searcher.log_policy().detach()
    with torch.no_grad():
        searcher.logit += 0.8
    mu = searcher.mu.item()
    ratios = [density(x, mu) / density(x, 0.5) for x in (0.3, 0.9)]
    assert ratios[0] < 0.8
    assert ratios[1] > 1.2
    improving = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)  # both have moved the right way, too far
    assert searcher.objective(improving, old).item() == pytest.approx((-0.8 + 1.2) / 2)
    assert searcher.objective(-improving, old).item() == pytest.approx((ratios[0] - ratios[1]) / 2, rel=1e-9)


def test_what_is_clipped_has_no_gradient_and_what_went_wrong_has() -> None:
    searcher = with_samples(policy(), [0.3], [0.9])
    old = searcher.log_policy().detach()
    with torch.no_grad():
        searcher.logit += 0.8
    for sign, still in ((1.0, True), (-1.0, False)):
        searcher.optimizer.zero_grad()
        searcher.objective(sign * torch.tensor([[-1.0], [1.0]], dtype=torch.float64), old).backward()
        assert searcher.logit.grad is not None
        assert (searcher.logit.grad.item() == 0.0) is still


def test_one_update_moves_the_mean_towards_the_better_sample() -> None:
    searcher = with_samples(policy(np.zeros(2), updates=1), [0.2, 0.7], [0.6, 0.3])
    searcher.tell(np.array([3.0, 1.0]))
    # Adam's first step is its rate, 0.2 in the logit, in the direction of the gradient.
    assert searcher.logit.tolist() == pytest.approx([-0.2, 0.2], abs=1e-6)
    assert searcher.mu.tolist() == pytest.approx([1 / (1 + np.exp(0.2)), 1 / (1 + np.exp(-0.2))], abs=1e-6)


def test_equal_rewards_teach_nothing() -> None:
    searcher = policy(np.zeros(3))
    searcher.ask(8)
    searcher.tell(np.full(8, 70.0))
    assert searcher.mu.tolist() == [0.5, 0.5, 0.5]


def test_clipping_holds_the_ratio_near_one_plus_epsilon() -> None:
    samples = [0.4], [0.6]
    clipped, free = (with_samples(policy(updates=300, clip=clip), *samples) for clip in (0.2, 1e9))
    ratio = {}
    for name, searcher in (("clipped", clipped), ("free", free)):
        diagnostics = searcher.tell(np.array([0.0, 1.0]))
        mu = searcher.mu.item()
        ratio[name] = [density(x, mu) / density(x, 0.5) for x in (0.4, 0.6)]
        assert diagnostics["approx_kl"] > 0
    # The better sample cannot gain beyond 1.2 nor the worse lose beyond 0.8; Adam's momentum carries a little further.
    assert 1.1 < ratio["clipped"][1] < 1.4
    assert 0.6 < ratio["clipped"][0] < 0.9
    assert ratio["free"][0] < 0.5
    assert abs(clipped.mu.item() - 0.5) < 0.15 < abs(free.mu.item() - 0.5)


def test_diagnostics_by_hand() -> None:
    searcher = with_samples(policy(updates=1), [0.1], [0.9])
    diagnostics = searcher.tell(np.array([1.0, 3.0]))
    mu = searcher.mu.item()
    ratio = np.array([density(x, mu) / density(x, 0.5) for x in (0.1, 0.9)])
    assert diagnostics["reward_mean"] == 2.0
    assert diagnostics["reward_std"] == 1.0
    assert diagnostics["reward_max"] == 3.0
    assert diagnostics["clip_fraction"] == np.mean(np.abs(ratio - 1) > 0.2)
    assert diagnostics["approx_kl"] == pytest.approx(np.mean(ratio - 1 - np.log(ratio)), rel=1e-6)


@settings(max_examples=10, deadline=None)
@given(shift=st.floats(-100, 100))
def test_adding_a_constant_to_the_rewards_changes_nothing(shift: float) -> None:
    rewards = np.random.default_rng(0).normal(size=8)
    plain, shifted = (policy(np.zeros(2), updates=3) for _ in range(2))
    for searcher, told in ((plain, rewards), (shifted, rewards + shift)):
        searcher.ask(8)
        searcher.tell(told)
    assert shifted.mu.tolist() == pytest.approx(plain.mu.tolist(), abs=1e-6)


def test_the_seed_decides() -> None:
    def walk(seed: int) -> list[Curriculum]:
        searcher = policy(np.zeros(3), seed=seed, updates=5)
        asked = []
        for _ in range(3):
            asked += searcher.ask(4)
            searcher.tell(np.array([c.array.sum() for c in asked[-4:]]))
        return [*asked, searcher.best()]

    assert walk(1) == walk(1)
    assert walk(1) != walk(2)


# --- residuals (3.4)


@pytest.mark.parametrize("support", ["bounded", "paper"])
def test_both_readings_agree_in_round_one(support: str) -> None:
    searcher = policy(np.zeros(4), residual_support=support, updates=5)
    asked = searcher.ask(6)
    searcher.tell(np.arange(6.0))
    reference = policy(np.zeros(4), updates=5)
    assert asked == reference.ask(6)
    reference.tell(np.arange(6.0))
    assert torch.equal(searcher.mu, reference.mu)
    assert np.abs(np.array([c.array for c in asked]).mean(0) - 0.5).max() < 0.3  # around the initial mean


BASE = np.array([0.0, 0.1, 0.5, 0.9, 1.0])


def test_bounded_residuals_rise_and_fall_within_the_unit_interval() -> None:
    searcher = policy(BASE, residual_support="bounded")
    asked = np.array([c.array for c in searcher.ask(500)])
    assert asked.min() >= 0
    assert asked.max() <= 1
    assert (asked[:, 1:4] < BASE[1:4]).any(0).all()
    assert (asked[:, 1:4] > BASE[1:4]).any(0).all()
    np.testing.assert_allclose(mean_of(searcher), BASE.clip(EDGE, 1 - EDGE), atol=1e-12)  # starts at Delta = 0


def test_the_papers_residuals_only_raise_thresholds_and_sums_are_clipped() -> None:
    searcher = policy(BASE, residual_support="paper")
    asked = np.array([c.array for c in searcher.ask(500)])
    assert (asked >= BASE - 1e-12).all()
    assert asked.max() == 1.0
    assert (asked[:, 4] == 1.0).all()
    np.testing.assert_allclose(mean_of(searcher), (BASE + EDGE).clip(0, 1), atol=1e-12)


@settings(max_examples=15, deadline=None)
@given(base=st.lists(st.floats(0, 1), min_size=1, max_size=5), seed=st.integers(0, 100))
def test_thresholds_stay_in_the_unit_interval_however_far_it_climbs(base: list[float], seed: int) -> None:
    for support in ("bounded", "paper"):
        searcher = policy(np.array(base), seed=seed, residual_support=support, updates=10, lr=1.0)
        for _ in range(3):
            rewards = [c.array.sum() for c in searcher.ask(4)]  # a Curriculum refuses what is outside
            diagnostics = searcher.tell(np.array(rewards))
            assert np.isfinite(list(diagnostics.values())).all()
        assert len(searcher.best()) == len(base)


# --- the winner


def told(pick: str) -> tuple[PPO2, list[np.ndarray], list[list[Curriculum]]]:
    searcher = policy(np.zeros(2), pick=pick, updates=5)
    means, asked = [], []
    for rewards in ([1.0, 2.0], [6.0, 7.0], [9.0, 0.0]):
        means.append(mean_of(searcher))
        asked.append(searcher.ask(2))
        searcher.tell(np.array(rewards))
    return searcher, means, asked


def test_the_winner_is_the_mean_whose_samples_scored_best_on_average() -> None:
    searcher, means, _ = told("mean")
    assert searcher.best().thresholds == tuple(means[1])


def test_or_the_best_sample() -> None:
    searcher, _, asked = told("best")
    assert searcher.best() == asked[2][0]


def test_or_the_last_mean() -> None:
    searcher, means, _ = told("last")
    assert searcher.best().thresholds == tuple(mean_of(searcher))
    assert all(searcher.best().thresholds != tuple(mean) for mean in means)


def test_before_any_reward_the_mean_wins() -> None:
    assert policy(np.zeros(2), initial=0.3).best().thresholds == pytest.approx((0.3, 0.3))


def test_the_first_mean_may_rise_from_group_to_group() -> None:
    rising = policy(np.zeros(4), initial=0.5, rise=0.6)
    assert rising.best().thresholds == pytest.approx((0.2, 0.4, 0.6, 0.8))
    falling = policy(np.zeros(3), initial=0.5, rise=-1.0)
    assert falling.best().thresholds == pytest.approx((1 - EDGE, 0.5, EDGE))  # within the support


def test_one_threshold_for_all_groups_does_not_rise() -> None:
    settings = SETTINGS.model_copy(update={"initial": 0.3, "rise": 0.6})
    assert PPO2(settings, np.zeros(4), 0, tied=True).best().thresholds == pytest.approx((0.3,) * 4)


def test_later_rounds_start_from_the_last_ones_winner() -> None:
    base = np.array([0.3, 0.4, 0.2])
    assert policy(base, initial=0.5, rise=0.6).best().thresholds == pytest.approx(tuple(base))


# --- it climbs

SEEDS, STEPS, SAMPLES = 50, 16, 8
# As in real searches: a quadratic in the thresholds, fitted to the 48 rewards of benchmarks/cub.py with seeds 0 and 1,
# leaves 0.75 points of PCK, and bends by 19 where this bends by 12.
NOISE = 0.75
CURVATURE = 12.0  # a curriculum that is off by 0.5 everywhere costs 3 points


def rewards_of(thresholds: np.ndarray, optimum: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """(..., N_G) thresholds -> (...) noisy rewards of a concave function."""
    loss = CURVATURE * ((thresholds - optimum) ** 2).mean(axis=-1)
    return np.asarray(60 - loss + NOISE * random.normal(size=loss.shape))


def ppo2_side_by_side(optima: np.ndarray, random: np.random.Generator, settings: Search = SETTINGS) -> np.ndarray:
    """(S, N_G) winners of S searches, which are run as one policy of S * N_G thresholds.

    Thresholds have a mean, ratio, clip and Adam state of their own and meet only in the reward, so giving each search's
    thresholds that search's advantage is the same as S policies, and fifty times as fast.
    """
    count, groups = optima.shape
    searcher = PPO2(settings, np.zeros(count * groups), seed=0)
    means, scores = [], []
    for _ in range(STEPS):
        means.append(mean_of(searcher).reshape(count, groups))
        asked = np.array([c.array for c in searcher.ask(SAMPLES)]).reshape(SAMPLES, count, groups)
        rewards = rewards_of(asked, optima, random)  # (M, S)
        scores.append(rewards.mean(axis=0))
        advantage = np.repeat(rewards - rewards.mean(axis=0), groups, axis=1)  # (M, S * N_G)
        searcher.climb(torch.from_numpy(count * advantage))  # J is a mean over all thresholds: as if over N_G
    return np.array(means)[np.argmax(scores, axis=0), np.arange(count)]


def random_search(optima: np.ndarray, random: np.random.Generator) -> np.ndarray:
    winners = []
    for seed, optimum in enumerate(optima):
        searcher = Random(SETTINGS, np.zeros(len(optimum)), seed)
        for _ in range(STEPS):
            asked = np.array([c.array for c in searcher.ask(SAMPLES)])
            searcher.tell(rewards_of(asked, optimum, random))
        winners.append(searcher.best().array)
    return np.array(winners)


def distances(winners: np.ndarray, optima: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt(((winners - optima) ** 2).mean(axis=1)))


def test_searches_side_by_side_are_searches_on_their_own() -> None:
    optima = np.random.default_rng(1).uniform(0.1, 0.9, (3, 2))
    together = PPO2(SETTINGS, np.zeros(6), seed=0)
    asked = np.array([c.array for c in together.ask(SAMPLES)]).reshape(SAMPLES, 3, 2)
    rewards = rewards_of(asked, optima, np.random.default_rng(2))
    together.climb(torch.from_numpy(3 * np.repeat(rewards - rewards.mean(axis=0), 2, axis=1)))
    for s in range(3):
        alone = with_samples(PPO2(SETTINGS, np.zeros(2), seed=0), *asked[:, s].tolist())
        alone.tell(rewards[:, s])
        np.testing.assert_allclose(mean_of(alone), mean_of(together)[2 * s : 2 * s + 2], atol=1e-6)


@pytest.mark.parametrize("groups", [4, 21])
def test_it_ends_nearer_to_the_optimum_than_random_search(groups: int) -> None:
    # 16 steps of 8 samples against 128 uniform draws, the mean of 50 seeds; both are told the same kind of rewards.
    random = np.random.default_rng(groups)
    optima = random.uniform(0.1, 0.9, (SEEDS, groups))
    ours = distances(ppo2_side_by_side(optima, random), optima)
    theirs = distances(random_search(optima, random), optima)
    start = distances(np.full_like(optima, 0.5), optima)
    error = np.sqrt((ours.var() + theirs.var()) / SEEDS)  # of the difference of the means
    assert ours.mean() < theirs.mean() - 2 * error
    if groups == 4:
        assert ours.mean() < 0.6 * start.mean()


def test_many_thresholds_want_gentler_updates() -> None:
    # 128 noisy rewards say little of each of 21 thresholds: the paper's rate of 0.2 follows the noise.
    gentle = SETTINGS.model_copy(update={"lr": 0.05, "updates": 4})
    found = []
    for settings_of in (gentle, SETTINGS):
        random = np.random.default_rng(21)
        optima = random.uniform(0.1, 0.9, (SEEDS, 21))
        found.append(distances(ppo2_side_by_side(optima, random, settings_of), optima).mean())
    start = distances(np.full_like(optima, 0.5), optima).mean()
    assert found[0] < 0.95 * start < found[1]


def test_ask_and_tell_climb_too() -> None:
    found = []
    for seed in range(4):
        random = np.random.default_rng(seed)
        optimum = random.uniform(0.1, 0.9, 4)
        searcher = PPO2(SETTINGS.model_copy(update={"updates": 20}), np.zeros(4), seed)
        for _ in range(STEPS):
            asked = np.array([c.array for c in searcher.ask(SAMPLES)])
            searcher.tell(rewards_of(asked, optimum, random))
        found.append((distances(searcher.best().array[None], optimum[None]), distances(np.full((1, 4), 0.5), optimum)))
    ours, start = np.mean(found, axis=0)
    assert ours < 0.75 * start

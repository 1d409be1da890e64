"""Curriculum Labeling (Cascante-Bonilla et al. 2020): the surest 20, 40, ... 100 % of the pseudo-labels, by rounds.

    round r: L over D_l and {x in D_u: c(x) above the (100 - 20 r)-th percentile of all c},  r = 1 ... 5

Every round labels all of D_u anew with the network of the round before, and trains a network from scratch. An instance
is in or out as a whole, by the mean of its keypoints' peaks. Left open: they keep the best checkpoint of a round on
validation data; here its last is kept, at which the rate has fallen to zero, or to a hundredth (schedule: step).
"""

from __future__ import annotations

from collections.abc import Iterator

from placl.config import Config
from placl.curriculum.curriculum import constant
from placl.lab import Lab
from placl.learn.course import TrainingSet
from placl.methods.method import Method
from placl.stages import FIRST, Stage, Unit, pseudo_label, train_stage

SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)  # of the pseudo-labels, round by round


def cl(lab: Lab) -> Iterator[Stage]:
    problem, configs = lab.problem, stages(lab.config)
    stage = train_stage(lab, Unit(FIRST, configs[FIRST], TrainingSet(problem.labelled)))
    yield stage
    for r, share in enumerate(SHARES, 1):
        name = f"round_{r}"
        pseudo = pseudo_label(lab, stage, problem.unlabelled, name)
        lab.run.keep_pseudo_labels(name, problem.unlabelled, pseudo)
        data = TrainingSet(problem.labelled, problem.unlabelled, pseudo)
        stage = train_stage(lab, Unit(name, configs[name], data, constant(1 - share, lab.config.groups)))
        yield stage


def by_percentile(config: Config) -> Config:
    """Thresholds are ranks of whole instances."""
    select = config.select.model_copy(update={"level": "instance", "scale": "quantile"})
    return config.model_copy(update={"select": select})


def stages(config: Config) -> dict[str, Config]:
    """All but the last are there to label."""
    names = [f"round_{r}" for r in range(1, len(SHARES) + 1)]
    later = dict.fromkeys(names[:-1], by_percentile(config.taught()))
    return {FIRST: config.taught(first=True), **later, names[-1]: by_percentile(config)}


METHOD = Method(cl, stages)

"""Pseudo-labelling as data distillation (Radosavovic et al. 2018): one round, labels from an ensemble of views.

    L = l(f(x), y) over D_l and l(f(x), y~) over D_u,  y~ = argmax of the mean heatmap over flips, turns and scales of x

All of D_u is labelled by the supervised network and used, with neither curriculum nor cross-training. The paper selects
nothing; where a threshold is wanted, `search.initial` is one if `search.searcher=constant`. Left open by the paper: the
ensemble's views (here `label`'s), and that the student is trained from scratch, as all networks here are.
"""

from __future__ import annotations

from collections.abc import Iterator

from placl.config import Config
from placl.curriculum.curriculum import constant
from placl.lab import Lab
from placl.learn.course import TrainingSet
from placl.methods.method import Method
from placl.stages import FIRST, Stage, Unit, pseudo_label, train_stage


def pl(lab: Lab) -> Iterator[Stage]:
    config, problem = lab.config, lab.problem
    teacher = train_stage(lab, Unit(FIRST, config.taught(first=True), TrainingSet(problem.labelled)))
    yield teacher
    pseudo = pseudo_label(lab, teacher, problem.unlabelled, "round_1")
    lab.run.keep_pseudo_labels("round_1", problem.unlabelled, pseudo)
    threshold = config.search.initial if config.search.searcher == "constant" else 0.0
    data = TrainingSet(problem.labelled, problem.unlabelled, pseudo)
    yield train_stage(lab, Unit("round_1", config, data, constant(threshold, config.groups)))


def stages(config: Config) -> dict[str, Config]:
    return {FIRST: config.taught(first=True), "round_1": config}


METHOD = Method(pl, stages)

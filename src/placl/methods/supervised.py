"""Supervised training on the labelled images alone.

    L = l(f(x), y) over D_l, with l the heatmap loss of `train.loss`

It is the first row of every table, and the network that all pseudo-labelling methods begin with.
"""

from __future__ import annotations

from collections.abc import Iterator

from placl.config import Config
from placl.lab import Lab
from placl.learn.course import TrainingSet
from placl.methods.method import Method
from placl.stages import FIRST, Stage, Unit, train_stage


def supervised(lab: Lab) -> Iterator[Stage]:
    yield train_stage(lab, Unit(FIRST, lab.config, TrainingSet(lab.problem.labelled)))


def stages(config: Config) -> dict[str, Config]:
    return {FIRST: config}


METHOD = Method(supervised, stages)

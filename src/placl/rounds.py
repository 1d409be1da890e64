"""Algorithm 2: rounds of pseudo-labelling, curriculum search and retraining.

The networks come out one by one as they are finished. What happens here sees labelled instances, images without
labels and the validation set (:class:`~placl.data.splits.Problem`); the test set is not within reach.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from placl.config import Config
from placl.curriculum.curriculum import Curriculum
from placl.curriculum.searcher import make_searcher
from placl.data.pool import concatenate
from placl.lab import Lab
from placl.learn.course import TrainingSet
from placl.learn.pseudo_labels import PseudoLabels, labels_into, read_labels
from placl.methods.method import Method
from placl.models.weights import weights_bytes
from placl.search import derive, proxy_task, search, tried
from placl.stages import FINAL, FIRST, Stage, Unit, pseudo_label, train_stage

AT_ONCE = 1 << 16  # instances whose labels are in memory


def placl(lab: Lab) -> Iterator[Stage]:
    """Yield Theta^0, ..., Theta^R (and the finishing network, where one is asked for)."""
    config, problem = lab.config, lab.problem
    rounds = config.rounds.count
    configs = stage_configs(config)
    base = np.zeros(config.groups)  # (Gamma^0)*
    stage = train_stage(lab, Unit(FIRST, configs[FIRST], TrainingSet(problem.labelled)))  # Theta^0
    yield stage
    for r in range(1, rounds + 1):
        lab.watch.progress("round", r - 1, rounds, "searching" if config.searching else "labelling")
        half = problem.unlabelled_half(r, config.rounds.cross_training)  # D_u^(1) or D_u^(2), 3.3
        pseudo = pseudo_label(lab, stage, half, f"round_{r}")  # by Theta^{r-1}
        lab.run.keep_pseudo_labels(f"round_{r}", half, pseudo)
        data = TrainingSet(problem.labelled, half, pseudo, beginning(config, stage))
        seed = derive(config.seed, "search", r)
        task = proxy_task(config, data, problem.val)
        best = search(lab, task, make_searcher(config.search, base, seed), f"round_{r}", seed)  # (Gamma^r)*
        lab.watch.progress("round", r - 1, rounds, "training")
        is_candidate = tried(lab, task, best, seed)
        stage = train_stage(lab, Unit(f"round_{r}", configs[f"round_{r}"], data, best, is_candidate))  # Theta^r
        base = best.array
        yield stage
    if rounds:
        lab.watch.progress("round", rounds, rounds)
    if FINAL in configs:
        yield finish(lab, configs[FINAL], stage, data, best)


def stage_configs(config: Config) -> dict[str, Config]:
    """The trainings of a run by name, in order. All but the last are there to label."""
    names = [f"round_{r}" for r in range(config.rounds.count + 1)]
    if config.finishes:
        names.append(FINAL)
    labelling = dict.fromkeys(names, config.taught()) | {FIRST: config.taught(first=True)}
    configs = labelling | {names[-1]: config}
    return {name: own if name == FIRST else own.continued() for name, own in configs.items()}


def beginning(config: Config, stage: Stage) -> bytes | None:
    """The weights that a round's trainings begin with, where they go on from the stage that labelled."""
    return None if config.rounds.continued is None else weights_bytes(stage.net)


def found_by_search(config: Config) -> set[str]:
    """The trainings of a run that are candidates of its searches, and cost nothing more."""
    if config.method != "placl" or not config.winner_is_trained:
        return set()
    own = {FIRST} if config.rounds.finish == "search" else {FIRST, FINAL}
    return set(stage_configs(config)) - own


def finish(lab: Lab, config: Config, stage: Stage, data: TrainingSet, best: Curriculum) -> Stage:
    """Both halves at once. Theta^R labels the half that it was not trained on; the other keeps its labels."""
    assert data.unlabelled is not None
    assert data.pseudo is not None
    other = lab.problem.unlabelled_half(lab.config.rounds.count + 1)
    fresh = pseudo_label(lab, stage, other, FINAL)
    both = concatenate([data.unlabelled, other])
    pseudo = _joined([data.pseudo, fresh], lab.run.path / FINAL / "pseudo_labels" / "both")
    lab.run.keep_pseudo_labels(FINAL, both, pseudo)
    everything = TrainingSet(data.labelled, both, pseudo, beginning(config, stage))
    if lab.config.rounds.finish == "both":
        return train_stage(lab, Unit(FINAL, config, everything, best))
    seed = derive(lab.config.seed, "search", FINAL)
    task = proxy_task(lab.config, everything, lab.problem.val)
    best = search(lab, task, make_searcher(lab.config.search, best.array, seed), FINAL, seed)
    return train_stage(lab, Unit(FINAL, config, everything, best, tried(lab, task, best, seed)))


def _joined(several: list[PseudoLabels], folder: Path) -> PseudoLabels:
    """Labels of several pools in one folder, copied piece by piece."""
    count, keypoints = sum(len(labels.confidence) for labels in several), several[0].confidence.shape[1]
    done = 0
    with labels_into(folder, count, keypoints) as put:
        for labels in several:
            for start in range(0, len(labels.confidence), AT_ONCE):
                some = slice(start, start + AT_ONCE)
                put(done + start, labels.keypoints[some], labels.confidence[some])
            done += len(labels.confidence)
    joined = read_labels(folder, "+".join(labels.model for labels in several), (count, keypoints))
    assert joined is not None
    return joined


METHOD = Method(placl, stage_configs)

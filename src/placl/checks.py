"""What cannot work is refused before anything is trained."""

from __future__ import annotations

import numpy as np
import torch

from placl.config import Config
from placl.config_checks import batch_sizes
from placl.data.pool import Pool
from placl.data.splits import Problem
from placl.errors import InputError


def doubts(pool: Pool, config: Config) -> list[str]:
    """What works and may not be what somebody wants, a line each."""
    lines = []
    if not pool.skeleton.flip_pairs and (config.augment.flip or config.label.flip):
        lines.append(
            "no keypoints are known to be left and right of each other. If some are, mirrored images teach wrong "
            "labels: set augment.flip=0 and label.flip=false, or name them left_... and right_... (--keypoints)."
        )
    known = pool.labelled  # what is scored; unlabelled images may be whole, without a box
    if config.reward.metric == "pck" and known.any():
        forgiven = config.reward.alpha * float(np.median((pool.length * pool.to_image[:, 0])[known]))
        lines.append(
            f"PCK@{config.reward.alpha:g}: a keypoint is right within {config.reward.alpha:g} of its box, here about "
            f"{forgiven:.{0 if forgiven >= 10 else 1}f} pixels of the image. reward.alpha makes it stricter."
        )
    return lines


def check(problem: Problem, config: Config) -> None:
    """Refuse what cannot work before anything is trained."""
    labelled, batch = len(problem.labelled), config.train.batch
    for key, size in batch_sizes(config).items():
        # A pass over them has no step then. Where steps are counted, images stand in a batch more than once, each
        # changed differently.
        if labelled < size and config.train.epoch == "data":
            raise InputError(
                f"{labelled} labelled instances are fewer than a batch of {size}. Label more, set {key}={labelled}, "
                "or set train.epoch=steps."
            )
    gpus = config.ray.gpus_per_candidate or 1
    if config.execute.where == "ray" and gpus > batch:
        raise InputError(
            f"ray.gpus_per_candidate={gpus:g}: {gpus:g} GPUs cannot share a batch of {batch}. "
            f"Set train.batch={gpus:g} or use fewer."
        )
    images = len(np.unique(problem.labelled.image))
    if config.searching and config.reward.source == "folds" and images < config.reward.folds:
        raise InputError(
            f"{images} labelled images make no {config.reward.folds} folds. Label more or set reward.folds={images}."
            if images > 1
            else "reward.source=folds needs at least 2 labelled images."
        )
    in_rounds = config.rounds.count if config.method == "placl" else 0
    if (in_rounds or config.method not in ("placl", "supervised", "source_only")) and not len(problem.halves[0]):
        raise InputError("no unlabelled image: name a folder with --unlabeled, or set method=supervised.")
    if in_rounds > 1 and config.rounds.cross_training and not len(problem.halves[1]):
        raise InputError("one unlabelled instance makes no two halves: add more or set rounds.cross_training=false.")
    if config.rounds.keep == "best" and not problem.val.labelled.any():
        raise InputError("rounds.keep=best: there is no validation set to tell the best. Use rounds.keep=last.")
    check_heads(problem.val, "validation", config)
    if config.searching and config.reward.source == "folds":
        check_heads(problem.labelled, "labelled", config)
    if config.execute.device == "cuda" and not torch.cuda.is_available():
        raise InputError("execute.device=cuda: this machine has no CUDA device. Use execute.device=cpu.")


def check_heads(pool: Pool, part: str, config: Config) -> None:
    """PCKh divides by head sizes: refuse a part that lacks some."""
    if config.reward.metric != "pckh":
        return
    labelled = pool.labelled
    unknown = int(labelled.sum()) if pool.head is None else int((~np.isfinite(pool.head[labelled])).sum())
    if unknown:
        raise InputError(
            f"reward.metric=pckh: {unknown} of the {int(labelled.sum())} {part} instances have no head size. "
            "Use reward.metric=pck."
        )

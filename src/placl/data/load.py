"""From the sources of a configuration to one pool: every source read, joined and cropped once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from placl.config import Data
from placl.data.correcting import ByInstance, read_corrections
from placl.data.crew import Crew
from placl.data.crop_cache import build_pool, crew_for
from placl.data.domains import read_domains
from placl.data.instances import Instances, join
from placl.data.pool import Pool
from placl.data.sharing import Shared
from placl.data.sources import one_role_each, path_of, read_given
from placl.errors import InputError


@dataclass(frozen=True)
class Dataset:
    """All instances of a training, and the role that their source gives each."""

    pool: Pool
    source: np.ndarray  # (N,) "labelled", "unlabelled", "val" or "test"
    notes: tuple[str, ...] = ()  # what was left out on purpose, a line each
    skipped: tuple[str, ...] = ()  # unlabelled images that could not be read, and why
    corrections: ByInstance = field(default_factory=dict)  # what people said of instances
    doubts: tuple[str, ...] = ()  # what works and may not be what somebody wants, a line each
    shared: Shared | None = None  # across domains: which keypoints are trained, and what the sources call them


def default_cache() -> Path:
    """The user's cache folder, as the platform has it; ``PLACL_CACHE`` overrules."""
    if chosen := os.environ.get("PLACL_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "placl"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "placl"


def load_dataset(
    settings: Data, input_size: int, *, workers: int = 1, on_progress: Callable[[int, int], None] | None = None
) -> Dataset:
    sources = (*settings.labeled, *settings.unlabeled, *settings.source, *settings.target)
    given = [*map(path_of, sources), *filter(None, [settings.root])]
    with crew_for(given, workers) as crew:
        return _load_dataset(settings, input_size, crew, on_progress)


def _load_dataset(
    settings: Data, input_size: int, crew: Crew, on_progress: Callable[[int, int], None] | None
) -> Dataset:
    instances, role_of, notes, shared = _read_all(settings)
    corrections, told = read_corrections(settings.corrections, instances)
    pool, skipped = build_pool(
        instances,
        view=input_size,
        context=settings.context,
        margin=settings.margin,
        cache=settings.cache or default_cache(),
        progress=on_progress,
        crew=crew,
    )
    # A labelled file's instance without any keypoint is an unlabelled one.
    roles = dict(zip(instances.ids, role_of, strict=True))
    source = np.array([roles[name] for name in pool.ids], dtype="<U10")
    source[(source == "labelled") & ~pool.labelled] = "unlabelled"
    if not (source == "labelled").any():
        raise InputError(f"{_named(settings)}: no labelled instance: no annotation has a keypoint with v > 0.")
    return Dataset(pool, source, (*notes, *told), tuple(skipped), corrections, views_differ(instances, role_of), shared)


def read_instances(settings: Data) -> tuple[Instances, np.ndarray, list[str]]:
    """All instances of a configuration's sources, (N,) their roles, and what a person should know."""
    return _read_all(settings)[:3]


def _read_all(settings: Data) -> tuple[Instances, np.ndarray, list[str], Shared | None]:
    """As :func:`read_instances`, and the keypoints that are shared, where there are several domains."""
    shared = None
    if settings.across_domains:
        domains = read_domains(settings)
        sources, names = [(p.role, p.instances) for p in domains.parts], [p.name for p in domains.parts]
        notes, shared = list(domains.notes), domains.shared
    else:
        if not (settings.labeled or settings.protocol):
            raise InputError("no labels: name a labelled source with --labeled, data.labeled or data=placl.yaml.")
        sources, names, notes = read_given(settings)
        if not any(role == "labelled" for role, _ in sources):
            raise InputError(f"{_named(settings)}: all its images are for validation or test, none to train on.")
    sources = one_role_each(sources, names, notes)
    if shared is not None and not any(len(found) for role, found in sources if role == "unlabelled"):
        raise InputError(
            f"{_target(settings)}: no image of the target is left: the source has all of them. Choose other images, or "
            "classes of a file that is both: source={path: ..., classes: [...]} target={path: ..., classes: [...]}."
        )
    skeleton = next((s.skeleton for _, s in sources if s.skeleton is not None), None)
    if skeleton is None:
        raise InputError(f"{_named(settings)}: no annotation has keypoints. Name a file that has labels.")
    instances = join([found.with_skeleton(skeleton) for _, found in sources])
    role_of = np.concatenate([np.full(len(found), role, dtype="<U10") for role, found in sources])
    return instances, role_of, notes, shared


def views_differ(instances: Instances, role_of: np.ndarray) -> tuple[str, ...]:
    """Networks that learn from boxes and label whole images see objects of another size than they know."""
    whole = np.isnan(instances.boxes).all(axis=1)
    labelled, unlabelled = whole[role_of == "labelled"], whole[role_of == "unlabelled"]
    if not (len(labelled) and len(unlabelled)) or labelled.mean() > 0.5 or unlabelled.mean() < 0.5:
        return ()
    return (
        "labelled instances have boxes and unlabelled images are taken whole, so objects look smaller there. Where "
        "they do not fill the image, give boxes: data.boxes for a folder, a COCO file with boxes in place of it.",
    )


def _target(settings: Data) -> str:
    return str(settings.root if settings.protocol else path_of(settings.target[0]))


def _named(settings: Data) -> str:
    return str(settings.root if settings.protocol else path_of((settings.labeled or settings.source)[0]))

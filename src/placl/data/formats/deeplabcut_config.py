"""A DeepLabCut project's config.yaml: who labelled, which bodyparts, and the edges to draw between them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from placl.data.skeleton import Skeleton
from placl.errors import InputError
from placl.files import write_atomic
from placl.plain_yaml import load_yaml

CONFIG = "config.yaml"


@dataclass(frozen=True)
class Project:
    """What a project's config.yaml says of labels."""

    scorer: str = ""
    bodyparts: tuple[str, ...] = ()
    edges: tuple[tuple[str, str], ...] = ()


def is_config(path: Path) -> bool:
    """Whether a file looks like a project's config.yaml. Looks at its beginning only."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(65536)
    except OSError:
        return False
    return all(re.search(rf"^{key}:", text, re.MULTILINE) for key in ("scorer", "bodyparts", "video_sets"))


def read_config(path: Path) -> Project:
    try:
        content = load_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is not YAML ({' '.join(str(error).split())}).") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: is not a DeepLabCut configuration. It has no bodyparts.")
    bodyparts = content.get("bodyparts")
    if not isinstance(bodyparts, list):  # "MULTI!" in a multi-animal project
        bodyparts = content.get("multianimalbodyparts")
    names = _names(path, "bodyparts", bodyparts)
    skeleton = content.get("skeleton") or []
    if not isinstance(skeleton, list):
        raise InputError(f'{path}: "skeleton" is not a list of pairs of bodyparts.')
    edges = [edge for chain in skeleton for edge in pairwise(_names(path, "skeleton", chain))]
    return Project(str(content.get("scorer") or ""), names, tuple(edges))


def _names(path: Path, key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value or [], list) or any(isinstance(name, (list, dict)) for name in value or []):
        raise InputError(f'{path}: "{key}" does not list names of bodyparts.')
    return tuple(str(name) for name in value or [])


def write_config(
    path: Path, skeleton: Skeleton | None, scorer: str, individuals: tuple[str, ...], videos: list[str]
) -> Path:
    """The config.yaml of a project with these labels; ("",) are no individuals: one animal to an image."""
    names = list(skeleton.keypoints) if skeleton is not None else []
    edges = [[names[a], names[b]] for a, b in skeleton.edges] if skeleton is not None else []
    several = individuals != ("",)
    parts: dict[str, Any] = {"bodyparts": names}
    if several:
        parts = {"individuals": list(individuals), "uniquebodyparts": [], "multianimalbodyparts": names}
        parts["bodyparts"] = "MULTI!"
    content = {
        "Task": "placl",
        "scorer": scorer,
        "date": "",
        "multianimalproject": several,
        "identity": False,
        "project_path": str(path.parent.absolute()),
        "video_sets": {f"{video}.mp4": {"crop": ""} for video in videos},
        **parts,
        "skeleton": edges,
    }
    write_atomic(path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
    return path

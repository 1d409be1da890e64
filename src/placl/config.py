"""Every knob once: typed, documented, validated. YAML files, Python and the command line all come from here.

A configuration is a preset (``presets/*.yaml``, complete and commented), a file over it, and ``key=value`` overrides
over that. It is frozen once made; parts of it are handed to the functions that need them.
"""

from __future__ import annotations

import difflib
import json
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from placl.errors import InputError

PRESETS = ("cpu", "fast", "paper")


def _as_list(value: Any) -> Any:
    return value if isinstance(value, (list, tuple)) or value is None else [value]


Paths = Annotated[tuple[Path, ...], BeforeValidator(_as_list)]
Fraction = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Data(Section):
    """Where the images and labels are, and how they are divided."""

    labeled: Paths = Field((), description="COCO keypoint files with the labels")
    images: Path | None = Field(None, description="folder of their images; default: beside each file")
    unlabeled: Paths = Field((), description="folders of images, or COCO files whose labels are ignored")
    boxes: Path | None = Field(None, description="COCO file with boxes for the images of unlabeled folders")
    val: Paths = Field((), description="COCO files for the reward; default: a part of the labelled ones")
    test: Paths = Field((), description="COCO files that only the final scores are measured on")
    keypoints: tuple[str, ...] | None = Field(None, description="keypoint names, where a file names them wrongly")
    label_fraction: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="share of the labelled instances whose labels are used; the others count as unlabelled"
    )
    val_fraction: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.2, description="share of the labelled instances kept for the reward, where `val` names no file"
    )
    test_fraction: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0, description="share of the labelled instances kept for the test score, where `test` names no file"
    )
    split_seed: Seed = Field(0, description="draws labelled, val, test and the two unlabelled halves")
    context: Positive = Field(1.25, description="side of the network's view over the longest side of the box")
    margin: Annotated[float, Field(ge=1, le=3)] = Field(
        1.25, description="side of the stored crop over the view: room for rotation, scaling and shifting"
    )
    cache: Path | None = Field(None, description="folder of the crop caches; default: the user's cache folder")


class Model(Section):
    """The network. It is made afresh for every training."""

    name: str = Field("tiny", description="one of placl.models.zoo.names()")
    input_size: Annotated[int, Field(ge=16, le=1024, multiple_of=16)] = Field(64, description="pixels a side")
    width: Positive = Field(1.0, description="channel multiplier of `tiny`")
    backbone: str | None = Field(None, description="any timm backbone, for `simple_baseline`")
    init: Literal["random", "pretrained"] = Field(
        "random", description="the paper re-initialises with random weights each round; pretrained is the practical way"
    )
    weights: Path | None = Field(None, description="file for init: pretrained; default: ImageNet through timm")


class Augment(Section):
    """Random changes of training images, drawn per image; 0 switches one off."""

    flip: Fraction = Field(0.5, description="probability of mirroring, with left and right keypoints swapped")
    rotate: NotNegative = Field(40.0, description="degrees; uniform in +-rotate, for `rotate_share` of the images")
    rotate_share: Fraction = Field(0.6, description="share of the images that are rotated (HRNet: 0.6)")
    scale: Annotated[float, Field(ge=0, lt=1)] = Field(0.25, description="uniform in 1 +- scale")
    shift: Fraction = Field(0.0, description="uniform in +-shift of the view's side")
    colour: Fraction = Field(0.0, description="strength of brightness, contrast and per-channel changes")
    cutout: Annotated[int, Field(ge=0)] = Field(0, description="number of grey squares pasted into each image")
    cutout_size: Fraction = Field(0.25, description="largest side of such a square over the view's side")


class Train(Section):
    """Algorithm 1: one network, from scratch."""

    epochs: Count = Field(210, description="N")
    epoch: Literal["data", "steps"] = Field(
        "data", description="data: a pass over what is selected (paper); steps: `steps_per_epoch`, whatever is selected"
    )
    steps_per_epoch: Count = Field(50, description="optimiser steps an epoch, for epoch: steps")
    batch: Count = Field(32, description="images a step")
    optimizer: Literal["adam", "adamw"] = Field("adam", description="the paper's is adam")
    lr: Positive = Field(1e-3, description="learning rate")
    weight_decay: NotNegative = Field(0.0, description="decoupled for adamw")
    schedule: Literal["step", "cosine"] = Field("step", description="step: divided by 10 at the milestones")
    milestones: tuple[Count, ...] = Field((170, 200), description="epochs, for schedule: step")
    warmup: Fraction = Field(0.0, description="share of the steps over which the rate rises from 0")
    loss: Literal["mse", "bce"] = Field("mse", description="mse is the paper's; bce learns faster from random weights")
    sigma: Positive = Field(2.0, description="of the target Gaussians, in heatmap pixels")
    labelled_share: Fraction | None = Field(
        None, description="share of each batch taken from the labelled set; none: as the sets' sizes have it (paper)"
    )


class Label(Section):
    """How networks are read: scores and predictions by `decode` and `flip`, pseudo-labels by all of these."""

    decode: Literal["argmax", "quarter", "dark"] = Field("quarter", description="sub-pixel reading of a heatmap")
    flip: bool = Field(False, description="average the heatmaps with those of the mirrored image")
    rotations: tuple[float, ...] = Field(
        (), description="for pseudo-labels: average also over images rotated by these degrees"
    )
    scales: tuple[Positive, ...] = Field(
        (), description="for pseudo-labels: average also over images scaled by these factors"
    )
    batch: Count = Field(256, description="images at once")


class Select(Section):
    """Eq. 1: which pseudo-labels enter the training set at a threshold."""

    level: Literal["instance", "keypoint"] = Field(
        "instance", description="instance: the mean confidence decides on the whole instance (paper)"
    )
    scale: Literal["raw", "quantile"] = Field(
        "raw", description="raw: thresholds on the confidence (paper); quantile: on its rank in [0, 1]"
    )
    score: Literal["peak", "agreement"] = Field(
        "peak", description="peak of the heatmap (paper), or how closely the views of `label` agree on the place"
    )


class Search(Section):
    """3.4 and 3.5: the search for a round's curriculum."""

    searcher: Literal["ppo2", "random", "manual", "fixed"] = Field("ppo2", description="how curricula are proposed")
    group_size: Count = Field(10, description="G: epochs that share a threshold")
    steps: Count = Field(16, description="T")
    samples: Count = Field(8, description="M")
    sigma: Positive = Field(0.2, description="of the truncated normals")
    lr: Positive = Field(0.2, description="alpha, of the policy's Adam")
    clip: Positive = Field(0.2, description="epsilon")
    updates: Count = Field(60, description="clipped updates on each step's samples")
    initial: Annotated[float, Field(gt=0, lt=1)] = Field(0.5, description="mean threshold the first round starts from")
    residual_support: Literal["bounded", "paper"] = Field(
        "bounded", description="bounded: residuals keep thresholds in [0, 1]; paper: residuals in [0, 1], sums clipped"
    )
    pick: Literal["mean", "best", "last"] = Field(
        "mean", description="the mean whose samples scored best on average (paper), the best sample, or the last mean"
    )


class Proxy(Section):
    """Cheaper trainings for the search (appendix); null: as in the full training."""

    images: Count | None = Field(None, description="unlabelled instances used")
    val_images: Count | None = Field(None, description="validation instances the reward is measured on")
    input_size: Annotated[int, Field(ge=16, le=1024, multiple_of=16)] | None = Field(None, description="pixels a side")
    model: str | None = Field(None, description="network")
    width: Positive | None = Field(None, description="channel multiplier")
    epochs: Count | None = Field(None, description="epochs; groups keep their share of the training")
    steps_per_epoch: Count | None = Field(None, description="for epoch: steps")


class Rounds(Section):
    """Algorithm 2."""

    count: Annotated[int, Field(ge=0)] = Field(6, description="R")
    cross_training: bool = Field(True, description="alternate between two halves of the unlabelled images (3.3)")
    finish: Literal["last", "both"] = Field(
        "last",
        description="last: the last round's network (paper); both: one more training under its curriculum on both "
        "halves, each labelled by the newest network that was not trained on it",
    )
    keep: Literal["last", "best"] = Field(
        "last", description="what goes to best/: the last network (paper), or the best on the validation set"
    )


class Reward(Section):
    """What a candidate is worth: the metric xi on labels that its training never saw."""

    metric: Literal["pck", "pck_auc", "oks"] = Field("pck", description="also what results report")
    alpha: Positive = Field(0.1, description="of PCK@alpha")
    source: Literal["val", "folds"] = Field("val", description="the validation split, or folds of the labelled set")
    folds: Annotated[int, Field(ge=2)] = Field(3, description="for source: folds; a candidate then trains as often")


class Execute(Section):
    """Where candidates run. Results depend on thread counts and device only, never on where or how many workers."""

    where: Literal["serial", "pool"] = Field("pool", description="this process, or a pool of worker processes")
    workers: Count | None = Field(None, description="default: one per core (per GPU where there are any)")
    threads: Count = Field(1, description="CPU threads of a candidate")
    final_threads: Count = Field(2, description="CPU threads of full trainings, of which one runs at a time")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: CUDA where there is any")


class Config(Section):
    """A whole training."""

    preset: Literal["cpu", "fast", "paper"] = Field("cpu", description="what the other keys start from")
    seed: Seed = Field(0, description="of everything random but the split")
    data: Data = Data()
    model: Model = Model()
    augment: Augment = Augment()
    train: Train = Train()
    label: Label = Label()
    select: Select = Select()
    search: Search = Search()
    proxy: Proxy = Proxy()
    rounds: Rounds = Rounds()
    reward: Reward = Reward()
    execute: Execute = Execute()
    reference: bool = Field(
        False, description="also train on the labels of the unlabelled instances, where there are any, as a yardstick"
    )

    @property
    def groups(self) -> int:
        """N_G: the number of epoch groups."""
        return -(-self.train.epochs // self.search.group_size)

    def proxied(self) -> Config:
        """The configuration of a search's trainings (appendix A.4): this one, with what the proxy makes cheaper."""
        proxy = self.proxy
        model = {"name": proxy.model, "input_size": proxy.input_size, "width": proxy.width}
        epochs = proxy.epochs or self.train.epochs
        # Milestones keep their place in a shorter training.
        milestones = tuple(max(1, round(m * epochs / self.train.epochs)) for m in self.train.milestones)
        train = {"epochs": epochs, "milestones": milestones, "steps_per_epoch": proxy.steps_per_epoch}
        return self.model_copy(
            update={
                "model": self.model.model_copy(update={k: v for k, v in model.items() if v is not None}),
                "train": self.train.model_copy(update={k: v for k, v in train.items() if v is not None}),
            }
        )


def load(file: Path | None = None, overrides: dict[str, Any] | None = None) -> Config:
    """A preset, a YAML file over it, and overrides (``{"train.lr": 0.01}``) over that."""
    own: dict[str, Any] = {}
    where = "overrides"
    if file is not None:
        where = str(file)
        own = _read_yaml(file)
    for key, value in (overrides or {}).items():
        _set(own, key.split("."), value)
    preset = own.get("preset", "cpu")
    if preset not in PRESETS:
        raise InputError(f'{where}: preset "{preset}" is unknown. Known: {", ".join(PRESETS)}.')
    merged = _merge(read_preset(preset), own)
    try:
        return Config.model_validate(merged)
    except ValidationError as error:
        raise InputError(f"{where}: {_explain(error)}") from None


def parse_override(text: str) -> tuple[str, Any]:
    """``train.lr=0.01`` -> ("train.lr", 0.01); values are YAML."""
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise InputError(f'"{text}" is not of the form key=value, e.g. train.lr=0.001.')
    try:
        return key.strip(), yaml.safe_load(value)
    except yaml.YAMLError:
        raise InputError(f'the value in "{text}" is not valid YAML.') from None


def read_preset(name: str) -> dict[str, Any]:
    text = resources.files("placl.presets").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    preset: dict[str, Any] = yaml.safe_load(text)
    return preset


def dump(config: Config) -> str:
    """The configuration as YAML, every key named."""
    return yaml.safe_dump(json.loads(config.model_dump_json()), sort_keys=False)


def differences(old: Config, new: Config) -> list[str]:
    """Keys that differ and change results, as ``train.lr: 0.001 -> 0.01``."""
    without_effect = {"execute.where", "execute.workers", "data.cache"}
    a, b = _flatten(json.loads(old.model_dump_json())), _flatten(json.loads(new.model_dump_json()))
    return [f"{k}: {a[k]} -> {b[k]}" for k in a if k not in without_effect and a[k] != b[k]]


def _read_yaml(file: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}).") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark else ""
        raise InputError(f"{file}: is not valid YAML{line}.") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise InputError(f"{file}: must be a mapping of keys to values, as in placl/presets/cpu.yaml.")
    # A section whose keys are all commented out reads as null.
    return {key: {} if value is None and key in _sections() else value for key, value in content.items()}


def _set(tree: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        node = tree.setdefault(part, {})
        if not isinstance(node, dict):
            raise InputError(f'"{".".join(path)}": "{part}" is a value, not a section.')
        tree = node
    tree[path[-1]] = value


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        merged[key] = _merge(base[key], value) if both else value
    return merged


def _flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= _flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _explain(error: ValidationError) -> str:
    """The first problem in one line, with the nearest valid name for an unknown key or value."""
    problem = error.errors()[0]
    parts = [str(part) for part in problem["loc"] if not str(part).startswith(("function", "constrained"))]
    key = ".".join(parts)
    if problem["type"] == "extra_forbidden":
        valid = [k.rpartition(".")[2] for k in _known_keys() if k.rpartition(".")[0] == ".".join(parts[:-1])]
        near = difflib.get_close_matches(parts[-1], valid, n=1, cutoff=0.4)
        hint = f'Did you mean "{near[0]}"?' if near else f"Known here: {', '.join(valid)}."
        return f'unknown key "{key}". {hint}'
    if problem["type"] == "literal_error":
        valid = [str(v) for v in _literal(parts)] or [problem["ctx"]["expected"]]
        near = difflib.get_close_matches(str(problem["input"]), valid, n=1, cutoff=0.4)
        hint = f'Did you mean "{near[0]}"?' if near else f"Known: {', '.join(valid)}."
        return f'"{problem["input"]}" is not a value of {key}. {hint}'
    return f"{key} = {problem['input']!r}: {problem['msg'][0].lower()}{problem['msg'][1:]}."


def _sections() -> set[str]:
    return {key.rpartition(".")[0] for key in _known_keys()}


def _known_keys(model: type[BaseModel] = Config, prefix: str = "") -> list[str]:
    keys = []
    for name, field in model.model_fields.items():
        keys.append(prefix + name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            keys += _known_keys(field.annotation, f"{prefix}{name}.")
    return keys


def _literal(path: list[str]) -> tuple[Any, ...]:
    model: Any = Config
    for part in path:
        model = model.model_fields[part].annotation
    return get_args(model)

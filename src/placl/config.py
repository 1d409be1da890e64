"""Every knob once: typed, documented, validated. YAML files, Python and the command line all come from here.

A configuration is frozen once made; parts of it are handed to the functions that need them. How it is read from
presets, files and overrides is in ``config_reading``, whose names are also found here; which settings contradict each
other is in ``config_checks``.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from placl.config_checks import ACROSS, refuse_misfits

if TYPE_CHECKING:
    from placl.config_reading import differences as differences
    from placl.config_reading import dump as dump
    from placl.config_reading import flat as flat
    from placl.config_reading import load as load
    from placl.config_reading import parse_override as parse_override
    from placl.config_reading import read_preset as read_preset

PRESETS = ("cpu", "fast", "paper")
WIDEST = {"rotate": 180.0, "scale": 0.9, "shift": 1.0, "colour": 1.0}  # ranges of augmentation
_READING = ("differences", "dump", "flat", "load", "parse_override", "read_preset")


def __getattr__(name: str) -> Any:
    """Reading needs the schema, so its names are fetched when they are first asked for."""
    if name not in _READING:
        raise AttributeError(f"module 'placl.config' has no attribute {name!r}")
    return getattr(import_module("placl.config_reading"), name)


def _as_list(value: Any) -> Any:
    return value if isinstance(value, (list, tuple)) or value is None else [value]


Fraction = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(Section):
    """A file or folder of any format, where a path alone does not say enough."""

    path: Path = Field(description="file or folder")
    format: str | None = Field(None, description="of `placl data import --help`; default: recognised")
    images: Path | None = Field(None, description="folder of its images; default: beside it")
    split: str | None = Field(None, description="only the images of this part of the dataset, such as train")
    classes: Annotated[tuple[str, ...] | None, BeforeValidator(_as_list)] = Field(
        None, description="only instances of these classes"
    )
    keypoints: tuple[str, ...] | None = Field(None, description="its keypoint names, where it names them otherwise")
    frames: Count = Field(200, description="frames taken from a video")
    sampling: Literal["even", "motion", "diverse"] = Field("even", description="which frames of a video")


Described = Annotated[
    Annotated[Path, Tag("~path")] | Annotated[Source, Tag("~source")],
    Discriminator(lambda value: "~source" if isinstance(value, (dict, Source)) else "~path"),
]
Sources = Annotated[tuple[Described, ...], BeforeValidator(_as_list)]


class Data(Section):
    """Where the images and labels are, and how they are divided."""

    protocol: str | None = Field(None, description="a dataset of the paper with its splits, such as cub; see `root`")
    root: Path | None = Field(None, description="folder of the protocol's dataset, in its official layout")
    labeled: Sources = Field((), description="files or folders with labels, of any format")
    images: Path | None = Field(None, description="folder of their images; default: beside each file")
    unlabeled: Sources = Field((), description="images, videos or annotation files, whose labels are ignored")
    boxes: Path | None = Field(None, description="COCO file with boxes for the images of unlabeled folders")
    source: Sources = Field(
        (), description="across domains: labelled sources of other domains than `target`; `source=` is short for it"
    )
    target: Sources = Field(
        (), description="across domains: images that the model is for, without labels; `target=` is short for it"
    )
    val: Sources = Field((), description="sources to validate on; default: a part of the labelled ones")
    test: Sources = Field((), description="sources that only the final scores are measured on")
    val_from: Literal["target", "source"] = Field(
        "target",
        description="across domains: labels of the target validate, where there are any; source: none of them is used",
    )
    ignore_target_labels: bool = Field(
        False, description="take the labels off `target`'s training images, where it has some by intent"
    )
    corrections: Annotated[tuple[Path, ...], BeforeValidator(_as_list)] = Field(
        (), description="files of `placl ui --review`: what was accepted is a label, what was rejected takes no part"
    )
    trust_drawn_boxes: bool = Field(
        False, description="hide labels also where boxes were drawn around them (LSP has no others)"
    )
    keypoints: tuple[str, ...] | None = Field(None, description="keypoint names, where a file names them wrongly")
    label_fraction: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="share of the labelled instances whose labels are used; the others count as unlabelled"
    )
    val_fraction: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.2,
        description="share of the labelled instances, less the test's, kept for validation, where `val` names no file",
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

    @property
    def across_domains(self) -> bool:
        """Whether labelled and unlabelled images are of different domains."""
        return bool(self.source or self.target) or (self.protocol or "").startswith(ACROSS)


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
    scale: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.25, description="the side of the view is scaled by 1 +- scale, uniform"
    )
    shift: Fraction = Field(0.0, description="uniform in +-shift of the view's side")
    colour: Fraction = Field(0.0, description="strength of brightness, contrast and per-channel changes")
    cutout: Annotated[int, Field(ge=0)] = Field(0, description="number of grey squares pasted into each image")
    cutout_size: Fraction = Field(0.25, description="largest side of such a square over the view's side")

    def times(self, factor: float) -> Augment:
        """With the ranges that numbers are drawn from so many times as wide, up to the widest there are."""
        wider = {name: min(factor * getattr(self, name), most) for name, most in WIDEST.items()}
        return self.model_copy(update=wider)


class Train(Section):
    """Algorithm 1: one network, from scratch."""

    epochs: Count = Field(210, description="N")
    epoch: Literal["data", "steps"] = Field(
        "data", description="data: a pass over what is selected (paper); steps: `steps_per_epoch`, whatever is selected"
    )
    steps_per_epoch: Count = Field(50, description="optimiser steps an epoch, for epoch: steps")
    batch: Count = Field(32, description="images a step")
    optimizer: Literal["adam", "adamw", "muon"] = Field(
        "adam", description="the paper's is adam; muon learns in far fewer steps from random weights"
    )
    lr: Positive = Field(1e-3, description="learning rate; small networks: about 0.03 for muon, 0.002 for adamw")
    weight_decay: NotNegative = Field(0.0, description="decoupled for adamw")
    schedule: Literal["step", "cosine"] = Field("step", description="step: divided by 10 at the milestones")
    milestones: tuple[Count, ...] = Field((170, 200), description="epochs, for schedule: step")
    warmup: Fraction = Field(0.0, description="share of the steps over which the rate rises from 0")
    loss: Literal["mse", "bce"] = Field("mse", description="mse is the paper's; bce learns faster from random weights")
    sigma: Positive = Field(2.0, description="of the target Gaussians, in heatmap pixels")
    labelled_share: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] | None = Field(
        None, description="share of each batch taken from the labelled set; none: as the sets' sizes have it (paper)"
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="of multiplications; auto: bfloat16 on GPUs since Ampere and CPUs with AMX, else float32"
    )


class Label(Section):
    """How networks are read: scores and predictions from the plain image by `decode`, pseudo-labels by all of these."""

    decode: Literal["argmax", "quarter", "dark"] = Field("quarter", description="sub-pixel reading of a heatmap")
    flip: bool = Field(False, description="for pseudo-labels: average also over the mirrored images")
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
    rule: Literal["threshold", "flex", "free", "soft"] = Field(
        "threshold",
        description="one threshold (paper); flex, free: one a keypoint, scaled or found; soft: weights in place of it",
    )


class Search(Section):
    """3.4 and 3.5: the search for a round's curriculum. Most of it is read where `searcher` searches."""

    searcher: Literal["ppo2", "random", "manual", "fixed", "constant"] = Field(
        "ppo2",
        description="how curricula are proposed: ppo2 (paper), at random, five by hand; fixed: ppo2 for one threshold "
        "that all groups share; constant: no search, the curriculum that ppo2 starts from",
    )
    group_size: Count = Field(10, description="G: epochs that share a threshold")
    steps: Count = Field(16, description="T")
    samples: Count = Field(8, description="M")
    sigma: Positive = Field(0.2, description="of the truncated normals")
    lr: Positive = Field(0.2, description="alpha, of the policy's Adam")
    clip: Positive = Field(0.2, description="epsilon")
    updates: Count = Field(60, description="clipped updates on each step's samples")
    initial: Annotated[float, Field(ge=0, lt=1)] = Field(0.5, description="mean threshold the first round starts from")
    rise: Annotated[float, Field(ge=-1, le=1)] = Field(
        0.0, description="how much higher the last group's starts than the first's: many labels first, sure ones last"
    )
    residual_support: Literal["bounded", "paper"] = Field(
        "bounded", description="bounded: residuals keep thresholds in [0, 1]; paper: residuals in [0, 1], sums clipped"
    )
    pick: Literal["mean", "best", "last"] = Field(
        "mean", description="the mean whose samples scored best on average (paper), the best sample, or the last mean"
    )


class Variation(Section):
    """What some trainings have different; null: as `model` and `train` say."""

    input_size: Annotated[int, Field(ge=16, le=1024, multiple_of=16)] | None = Field(None, description="pixels a side")
    model: str | None = Field(None, description="network")
    width: Positive | None = Field(None, description="channel multiplier")
    epochs: Count | None = Field(None, description="epochs; groups keep their share of the training")
    steps_per_epoch: Count | None = Field(None, description="for epoch: steps")
    batch: Count | None = Field(None, description="images a step")


class Teacher(Variation):
    """Networks that only label: worth a longer training or a larger network; null: as the one that is kept (paper)."""

    first_batch: Count | None = Field(None, description="images a step of the first, which has labels alone")
    first_augment: Positive | None = Field(
        None, description="how many times as far its `augment` goes: few labels want more of it than many do"
    )


class Proxy(Variation):
    """Cheaper trainings for the search (appendix), where there is one; null: as in the full training."""

    images: Count | None = Field(None, description="unlabelled instances used")
    val_images: Count | None = Field(None, description="validation instances the reward is measured on")


class Rounds(Section):
    """Algorithm 2."""

    count: Annotated[int, Field(ge=0)] = Field(6, description="R")
    cross_training: bool = Field(True, description="alternate between two halves of the unlabelled images (3.3)")
    finish: Literal["last", "both", "search"] = Field(
        "last",
        description="last: the last round's network (paper); both: one more training under its curriculum on both "
        "halves, each labelled by the newest network that was not trained on it; search: under a curriculum of its own",
    )
    continued: Annotated[float, Field(gt=0.0, le=1.0)] | None = Field(
        None,
        description="from round 1 on, networks go on from the one that labelled, for this share of the steps; "
        "null: each begins afresh (paper)",
    )
    keep: Literal["last", "best"] = Field(
        "last", description="what goes to best/: the last network (paper), or the best on the validation set"
    )


class Reward(Section):
    """What a candidate is worth: the metric xi on labels that its training never saw."""

    metric: Literal["pck", "pck_auc", "pckh", "oks"] = Field("pck", description="also what results report")
    alpha: Positive = Field(0.1, description="of PCK@alpha and PCKh@alpha")
    source: Literal["val", "folds"] = Field("val", description="the validation split, or folds of the labelled set")
    folds: Annotated[int, Field(ge=2)] = Field(3, description="for source: folds; a candidate then trains as often")


class Execute(Section):
    """Where trainings run and images are labelled. On CPUs, results depend on thread counts, not on where it is."""

    where: Literal["serial", "pool", "ray"] = Field(
        "pool", description="this process, a pool of worker processes, or a Ray cluster; `execute=ray` is short for it"
    )
    workers: Count | None = Field(None, description="default: one per core (per GPU where there are any)")
    threads: Count = Field(1, description="CPU threads of a candidate")
    final_threads: Count = Field(
        1, description="CPU threads of full trainings, of which one runs at a time; more are slow on a busy machine"
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: CUDA where there is any")
    together: Count = Field(
        1,
        description="candidates that a worker trains as one network, for small ones on a GPU; results change by float "
        "noise, and CPUs gain nothing",
    )


class Ray(Section):
    """The cluster of `execute=ray` (pip install 'placl[ray]')."""

    address: str | None = Field(
        "auto",
        description="auto: the cluster this machine is part of; HOST:PORT joins one for a while, ray://HOST:10001 "
        "speaks to one from outside; null: one of its own, on this machine",
    )
    gpus_per_candidate: NotNegative | None = Field(
        None, description="null: 1 where the cluster has GPUs; below 1, candidates share one; above, they train by DDP"
    )
    retries: Annotated[int, Field(ge=0)] = Field(
        10, description="how often a candidate whose worker or node was lost is run elsewhere before giving up"
    )


class Config(Section):
    """A whole training."""

    preset: Literal["cpu", "fast", "paper"] = Field("cpu", description="what the other keys start from")
    method: Literal[
        "placl",
        "supervised",
        "source_only",
        "pl",
        "cl",
        "elt",
        "gen",
        "sskl",
        "posecons",
        "posedual",
        "multiaugs",
        "mean_teacher",
        "domain_confusion",
        "residual_transfer",
        "cyclegan_pl",
        "ws_cda_pplo",
    ] = Field("placl", description="how unlabelled images are used; the others are there to compare (docs/method.md)")
    seed: Seed = Field(0, description="of everything random but the split")
    data: Data = Data()
    model: Model = Model()
    augment: Augment = Augment()
    train: Train = Train()
    label: Label = Label()
    select: Select = Select()
    teacher: Teacher = Teacher()
    search: Search = Search()
    proxy: Proxy = Proxy()
    rounds: Rounds = Rounds()
    reward: Reward = Reward()
    execute: Execute = Execute()
    ray: Ray = Ray()
    reference: bool = Field(
        False, description="also train on the labels of the unlabelled instances, where there are any, as a yardstick"
    )
    track: Literal["none", "mlflow", "wandb"] = Field(
        "none", description="a tracker that settings, numbers and results go to as well (docs/tracking.md)"
    )

    @model_validator(mode="after")
    def _keys_fit_together(self) -> Config:
        refuse_misfits(self)
        return self

    @property
    def groups(self) -> int:
        """N_G: the number of epoch groups."""
        return -(-self.train.epochs // self.search.group_size)

    @property
    def view(self) -> int:
        """Pixels a side of the view in stored crops: what the network with the largest input needs.

        All networks of a run read the same crops, wherever they are read again.
        """
        return max(self.model.input_size, self.teacher.input_size or 0)

    def anchored(self) -> Config:
        """With absolute paths of data, so that a run can be carried on and looked at from any folder."""
        return self.model_copy(update={"data": _absolute(self.data)})

    def proxied(self) -> Config:
        """The configuration of a search's trainings (appendix A.4): this one, with what the proxy makes cheaper."""
        return self.continued()._varied(self.proxy)

    def taught(self, *, first: bool = False) -> Config:
        """The configuration of the networks that only label; of the first, which has labels alone."""
        teacher = self.teacher
        if not first:
            return self._varied(teacher)
        taught = self._varied(teacher.model_copy(update={"batch": teacher.first_batch or teacher.batch}))
        if teacher.first_augment is None:
            return taught
        return taught.model_copy(update={"augment": self.augment.times(teacher.first_augment)})

    def continued(self) -> Config:
        """The configuration of trainings that begin with the network of the round before, if any do."""
        if self.rounds.continued is None:
            return self
        steps = max(1, round(self.rounds.continued * self.train.steps_per_epoch))
        return self.model_copy(update={"train": self.train.model_copy(update={"steps_per_epoch": steps})})

    @property
    def finishes(self) -> bool:
        """Whether a last training sees both halves: without cross-training every round does."""
        return self.rounds.count > 0 and self.rounds.cross_training and self.rounds.finish != "last"

    @property
    def searches(self) -> int:
        """How often a run looks for a curriculum."""
        return self.rounds.count + (self.finishes and self.rounds.finish == "search")

    @property
    def searching(self) -> bool:
        """Whether candidates are trained, whose rewards decide something."""
        return self.method == "placl" and self.searches > 0 and self.search.searcher != "constant"

    @property
    def needs_val(self) -> bool:
        """Whether there is no training without a validation set; `rounds.keep=best` needs one, too, and says so."""
        return self.reward.source == "val" and (self.searching or self.method != "placl")

    @property
    def winner_is_trained(self) -> bool:
        """Whether the search's winner is a candidate, trained as the network that it is searched for would be."""
        search, execute = self.search, self.execute
        is_candidate = search.searcher in ("random", "manual") or (
            search.searcher != "constant" and search.pick == "best"
        )
        own = self.continued()
        alike = self.proxied() == own == self.taught().continued() and self.proxy.images is None
        return is_candidate and alike and self.reward.source == "val" and execute.threads == execute.final_threads

    def _varied(self, by: Variation) -> Config:
        model = {"name": by.model, "input_size": by.input_size, "width": by.width}
        own = {"backbone": None} if by.model not in (None, self.model.name) else {}  # it is another network's
        epochs = by.epochs or self.train.epochs
        # Milestones keep their place in a shorter or longer training.
        milestones = tuple(max(1, round(m * epochs / self.train.epochs)) for m in self.train.milestones)
        train = {"epochs": epochs, "milestones": milestones, "steps_per_epoch": by.steps_per_epoch, "batch": by.batch}
        return self.model_copy(
            update={
                "model": self.model.model_copy(update={k: v for k, v in model.items() if v is not None} | own),
                "train": self.train.model_copy(update={k: v for k, v in train.items() if v is not None}),
            }
        )


def _absolute(value: Any) -> Any:
    if isinstance(value, Path):
        return Path(os.path.abspath(value))
    if isinstance(value, tuple):
        return tuple(map(_absolute, value))
    if isinstance(value, Section):
        return value.model_copy(update={name: _absolute(getattr(value, name)) for name in type(value).model_fields})
    return value

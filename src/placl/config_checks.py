"""Settings that are valid one by one, and together would waste a training without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic_core import PydanticCustomError

if TYPE_CHECKING:
    from placl.config import Config, Data

BY_SIZES = ("placl", "supervised", "source_only", "pl", "cl")  # whose batches may be as the sets' sizes have it
ACROSS = "animalpose_to_"  # and a class: protocols whose unlabelled images are of that class, and the labelled ones not


def refuse_misfits(config: Config) -> None:
    groups = config.groups
    for section, epochs in (("proxy", config.proxy.epochs), ("teacher", config.teacher.epochs)):
        if epochs is not None and epochs < groups:
            raise _misfit(
                f"{section}.epochs={epochs} is fewer than the {groups} epoch groups: the last thresholds would "
                f"never be trained. Use at least {groups} or a larger search.group_size.",
                (f"{section}.epochs", "train.epochs", "search.group_size"),
                groups=groups,
            )
    both = [key for key in ("labeled", "val", "test") if getattr(config.data, key)]
    if config.data.protocol is not None and both:
        raise _misfit(
            f"data.{both[0]} is not read with data.protocol={config.data.protocol}: it has its own. Leave one out.",
            (f"data.{both[0]}", "data.protocol"),
        )
    _check_domains(config.data)
    if config.execute.together > 1 and (config.ray.gpus_per_candidate or 0) > 1:
        raise _misfit(
            f"execute.together={config.execute.together} trains several candidates on one GPU, "
            f"ray.gpus_per_candidate={config.ray.gpus_per_candidate:g} one on several. Leave one out.",
            ("execute.together", "ray.gpus_per_candidate"),
        )
    if config.search.samples == 1 and config.search.searcher in ("ppo2", "fixed"):
        raise _misfit(
            f"search.samples=1 teaches search.searcher={config.search.searcher} nothing: its advantage is always 0. "
            "Use at least 2.",
            ("search.samples", "search.searcher"),
        )
    if config.model.weights is not None and config.model.init == "random":
        raise _misfit(
            f"model.weights={config.model.weights} is not read with model.init=random. "
            "Set model.init=pretrained, or leave model.weights out.",
            ("model.weights", "model.init"),
        )
    if config.select.score == "agreement" and not (config.label.flip or config.label.rotations or config.label.scales):
        raise _misfit(
            "select.score=agreement needs several views. Set label.flip=true, label.rotations or label.scales.",
            ("select.score", "label.flip", "label.rotations", "label.scales"),
        )
    _check_rule(config)
    _check_continued(config)
    _check_batches(config)


def batch_sizes(config: Config) -> dict[str, int]:
    """Images a step by the key that sets them, as far as they are set."""
    sizes = {
        "train.batch": config.train.batch,
        "teacher.batch": config.teacher.batch,
        "teacher.first_batch": config.teacher.first_batch,
        "proxy.batch": config.proxy.batch,
    }
    return {key: size for key, size in sizes.items() if size is not None}


def _check_batches(config: Config) -> None:
    """Batches with a share for each kind of image have room for both."""
    if config.train.labelled_share is None and config.method in BY_SIZES:
        return
    otherwise = " or train.labelled_share=null" if config.method in BY_SIZES else ""
    for key, size in batch_sizes(config).items():
        if size == 1:
            raise _misfit(
                f"{key}=1 has no room for labelled and unlabelled images. Use at least 2{otherwise}.",
                (key, "train.labelled_share", "method"),
            )


def _check_continued(config: Config) -> None:
    """A network goes on as it is, and for a share of steps."""
    if config.rounds.continued is None:
        return
    said, key = f"rounds.continued={config.rounds.continued:g}", "rounds.continued"
    if config.train.epoch != "steps":
        raise _misfit(f"{said} is a share of steps. Set train.epoch=steps.", (key, "train.epoch"))
    if config.reward.source == "folds":
        keys = (key, "reward.source")
        raise _misfit(f"{said} goes on from a network that has learned reward.source=folds. Leave one out.", keys)
    for section, other in (("teacher", config.teacher), ("proxy", config.proxy)):
        for name in ("model", "width"):
            value = getattr(other, name)
            if value is not None:
                keys = (key, f"{section}.{name}")
                raise _misfit(f"{said} goes on with one network, {keys[1]}={value} is another. Leave one out.", keys)


def _check_rule(config: Config) -> None:
    """Adaptive rules are for keypoints, and read a threshold (flex) or none (free and soft)."""
    rule, method, searcher = config.select.rule, config.method, config.search.searcher
    if rule == "threshold":
        return
    said = f"select.rule={rule}"
    if method == "cl":
        raise _misfit(f"{said} is not read with method=cl, which has its own. Leave it out.", ("select.rule", "method"))
    if config.select.level == "instance":
        raise _misfit(f"{said} is for keypoints. Set select.level=keypoint.", ("select.rule", "select.level"))
    if method == ("pl" if rule == "flex" else "placl") and searcher != "constant":
        why = "needs a threshold, search.initial" if rule == "flex" else "has no threshold to search for"
        keys = ("select.rule", "search.searcher", "method")
        raise _misfit(f"{said} with method={method} {why}. Set search.searcher=constant.", keys)


def _check_domains(data: Data) -> None:
    """Across domains, labels come from the source, images from the target, and nothing from elsewhere."""
    if not data.across_domains:
        if data.val_from != "target":
            keys = ("data.val_from", "data.source", "data.target")
            raise _misfit(f"data.val_from={data.val_from} is for data.source and data.target. Leave it out.", keys)
        return
    if data.label_fraction < 1:
        raise _misfit(
            f"data.label_fraction={data.label_fraction:g}: across domains all labels of the source are used, and what "
            "is unlabelled is the target's. Leave it out.",
            ("data.label_fraction", "data.source"),
        )
    if data.protocol is not None:  # it has a target; sources may be added
        has_own = data.protocol.startswith(ACROSS)
        if data.target or not has_own:
            key = "target" if data.target else "source"
            why = "it has its own" if has_own else f"that is for {ACROSS}cat and the like"
            text = f"data.{key} is not read with data.protocol={data.protocol}: {why}. Leave one out."
            raise _misfit(text, (f"data.{key}", "data.protocol"))
        return
    for missing, given, what in (("target", "source", "images"), ("source", "target", "labels")):
        if not getattr(data, missing):
            text = f"data.{given} needs data.{missing}: name the {what} of the other domain, {missing}=PATH."
            raise _misfit(text, (f"data.{missing}", f"data.{given}"))
    for key, instead in (
        ("labeled", "Name all labels in source"),
        ("unlabeled", "Name all images in target"),
        ("keypoints", "Name them for the one they are of: source={path: ..., keypoints: [...]}"),
    ):
        if getattr(data, key):
            text = f"data.{key} is not read with data.source and data.target. {instead}."
            raise _misfit(text, (f"data.{key}", "data.source"))


def _misfit(message: str, keys: tuple[str, ...], **facts: int) -> PydanticCustomError:
    """``keys`` are those that the message is about, the one to change first."""
    return PydanticCustomError("misfit", "{message}", {"message": message, "keys": keys, **facts})

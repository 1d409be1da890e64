"""Every knob: what is refused and how, what presets say, and that a dumped configuration is the one loaded."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from placl import config as configuration
from placl.config import Config, Section, Source, Teacher, differences, dump, load, parse_override, read_preset
from placl.errors import InputError

PAPER_PRESET: dict[str, Any] = {
    # "conducted for T = 16 sampling steps, and in each step M = 8 sets of parameters (curriculum) are sampled"
    "search.steps": 16,
    "search.samples": 8,
    # "The clipping threshold is eps = 0.2, and mu is updated with the learning rate of alpha = 0.2."
    "search.clip": 0.2,
    "search.lr": 0.2,
    # "sigma is fixed to 0.2 in practice"
    "search.sigma": 0.2,
    # "We empirically use R=6 self-training rounds, and group size G=10 for curriculum search."
    "rounds.count": 6,
    "search.group_size": 10,
    # "train ... with Mean-Squared Error (MSE) loss for N=210 epochs per round"
    "train.loss": "mse",
    "train.epochs": 210,
    "train.epoch": "data",
    # "Adam with a learning rate of 0.001 is adopted. We reduce the learning rate by a factor of 10 at the 170-th and
    # 200-th epochs."
    "train.optimizer": "adam",
    "train.lr": 0.001,
    "train.schedule": "step",
    "train.milestones": [170, 200],
    "train.warmup": 0.0,
    # "all results are obtained using HRNet-w32 backbone with the input size of 256 x 256"
    "model.name": "hrnet_w32",
    "model.input_size": 256,
    # "the model is reinitialized and retrained in each self-training round"
    "model.init": "random",
    # "exclude half body transforms, and testing tricks (post-processing, and flip testing)"
    "label.flip": False,
    "label.rotations": [],
    "label.scales": [],
    # Eq. 1 selects instances by the response at the peak; the last round's network is the result.
    "select.level": "instance",
    "select.scale": "raw",
    "select.score": "peak",
    "search.searcher": "ppo2",
    "search.pick": "mean",
    "rounds.cross_training": True,
    "rounds.finish": "last",
    "rounds.keep": "last",
    "reward.metric": "pck",
    "reward.alpha": 0.1,
    "reward.source": "val",
}


def flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in tree.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return found


def test_what_only_the_command_line_reads_is_not_advised_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("targt: photos\n")
    with pytest.raises(InputError) as error:
        configuration.load(file)
    assert 'unknown key "targt"' in str(error.value)
    assert '"target"' not in str(error.value)


def refused(overrides: dict[str, Any]) -> str:
    with pytest.raises(InputError) as caught:
        load(None, overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message


# --- what is refused, and how it is said


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"train.lrr": 1}, 'train.lrr=1: unknown key "train.lrr". Did you mean "lr"?'),
        ({"train.epoch_count": 1}, 'train.epoch_count=1: unknown key "train.epoch_count". Did you mean "epoch"?'),
        ({"trian.lr": 1}, 'trian.lr=1: unknown key "trian". Did you mean "train"?'),
        # Found by benchmarks/fuzz.py: it looks like a tag of pydantic's.
        ({"~seed": 1}, '~seed=1: unknown key "~seed". Did you mean "seed"?'),
        ({"sorce": "a"}, 'sorce=a: unknown key "sorce". Did you mean "source"?'),
        ({"sead": 1}, 'sead=1: unknown key "sead". Did you mean "seed"?'),
        ({"train.loss": "msee"}, 'train.loss=msee: "msee" is not a value of train.loss. Did you mean "mse"?'),
        (
            {"search.searcher": "ppo"},
            'search.searcher=ppo: "ppo" is not a value of search.searcher. Did you mean "ppo2"?',
        ),
        (
            {"train.epoch": 3},
            'train.epoch=3: "3" is not a value of train.epoch. Did you mean train.epochs=3? Known: data, steps.',
        ),
        ({"rounds.keep": "xyz"}, 'rounds.keep=xyz: "xyz" is not a value of rounds.keep. Known: last, best.'),
        ({"preset": "papier"}, 'preset=papier: preset "papier" is unknown. Did you mean "paper"?'),
        ({"preset": "zz"}, 'preset=zz: preset "zz" is unknown. Known: cpu, fast, paper.'),
        ({"train": {"lr": 1, "lrr": 2}}, 'train.lrr=2: unknown key "train.lrr". Did you mean "lr"?'),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(overrides: dict[str, Any], message: str) -> None:
    assert refused(overrides) == message


def test_a_key_like_no_other_is_answered_with_all_there_are() -> None:
    message = refused({"rounds.qqqq": 1})
    assert (
        message
        == 'rounds.qqqq=1: unknown key "rounds.qqqq". Known here: count, cross_training, finish, continued, keep.'
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, "many", None, [1]])
@pytest.mark.parametrize("key", ["train.lr", "train.sigma", "search.sigma", "search.clip", "reward.alpha"])
def test_a_rate_is_a_positive_finite_number(key: str, value: Any) -> None:
    assert refused({key: value}).startswith(f"{key}=")


@pytest.mark.parametrize("key", ["data.label_fraction", "data.val_fraction", "augment.flip", "augment.scale"])
@pytest.mark.parametrize("value", [float("nan"), -0.1, 1.5])
def test_a_share_lies_in_the_unit_interval(key: str, value: float) -> None:
    assert refused({key: value}).startswith(f"{key}=")


@pytest.mark.parametrize("key", ["train.epochs", "train.batch", "search.group_size", "search.steps", "execute.threads"])
@pytest.mark.parametrize("value", [0, -3, 1.5, float("nan")])
def test_a_count_is_a_whole_number_from_one(key: str, value: float) -> None:
    assert refused({key: value}).startswith(f"{key}=")


@pytest.mark.parametrize("key", ["seed", "data.split_seed"])
def test_numpy_takes_no_negative_seeds_so_neither_do_we(key: str) -> None:
    assert refused({key: -1}) == f"{key}=-1: input should be greater than or equal to 0."


def test_an_input_divides_into_the_coarsest_feature_map() -> None:
    assert "multiple of 16" in refused({"model.input_size": 100})


def test_a_section_leaves_keys_that_it_does_not_name() -> None:
    config = load(None, {"train.lr": 0.5, "train": {"batch": 4}, "train.epochs": 40})
    assert (config.train.lr, config.train.batch, config.train.epochs) == (0.5, 4, 40)


def test_a_section_is_no_value_and_a_value_no_section() -> None:
    assert refused({"train": 5}).startswith("train=5: ")
    assert refused({"train": 5, "train.lr": 1}) == '"train.lr": "train" is a value, not a section.'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train: [1, 2", "is not valid YAML in line 1."),
        ("train:\n  lr: 1\n lr: 2\n", "is not valid YAML in line 3."),
        ("- train\n", "must be a mapping of keys to values, as in placl/presets/cpu.yaml."),
        ("just text", "must be a mapping of keys to values, as in placl/presets/cpu.yaml."),
        ("!!python/object/apply:os.system [ls]", "is not valid YAML in line 1."),
        ("train:\n  lr: .nan\n", "train.lr = nan: input should be a finite number."),
        ("seed: 1\nrounds:\n  cuont: 2\n", 'unknown key "rounds.cuont". Did you mean "count"?'),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "my.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        load(file)
    assert str(caught.value) == f"{file}: {message}"


def test_a_bad_override_is_blamed_and_not_the_file(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("train: {lr: 0.5}\nsearch: {searcher: ppo2, group_size: 1}\nproxy: {epochs: 20}\n")

    def said(overrides: dict[str, Any]) -> str:
        with pytest.raises(InputError) as caught:
            load(file, overrides)
        return str(caught.value)

    assert said({"train.lrr": 1}) == 'train.lrr=1: unknown key "train.lrr". Did you mean "lr"?'
    assert said({"train.lr": -1}) == "train.lr=-1: input should be greater than 0."
    assert said({"label.flip": None}).startswith("label.flip=null: ")
    assert said({"preset": "fats"}) == 'preset=fats: preset "fats" is unknown. Did you mean "fast"?'
    assert said({"train.epochs": 21}).startswith("proxy.epochs=20 is fewer than the 21 epoch groups")
    file.write_text("train: {lrr: 0.5}\npreset: fats\n")
    assert said({"train.lr": 1}) == f'{file}: preset "fats" is unknown. Did you mean "fast"?'
    assert said({"preset": "fast", "train.lr": 1}) == f'{file}: unknown key "train.lrr". Did you mean "lr"?'
    file.write_text("search: {searcher: ppo2, samples: 1}\n")
    assert said({"train.lr": 1}).startswith(f"{file}: search.samples=1 ")


# --- what is valid alone and not together


A_AND_B = {"source": "a.json", "target": "b"}
DOMAINS: list[tuple[dict[str, Any], str]] = [
    ({"source": "a.json"}, "data.source needs data.target: name the images of the other domain, target=PATH."),
    ({"target": "b"}, "data.target needs data.source: name the labels of the other domain, source=PATH."),
    (
        {**A_AND_B, "data.labeled": "c.json"},
        "data.labeled is not read with data.source and data.target. Name all labels in source.",
    ),
    (
        {**A_AND_B, "data.unlabeled": "c"},
        "data.unlabeled is not read with data.source and data.target. Name all images in target.",
    ),
    (
        {**A_AND_B, "data.keypoints": ["nose"]},
        "data.keypoints is not read with data.source and data.target. Name them for the one they are of: "
        "source={path: ..., keypoints: [...]}.",
    ),
    (
        {**A_AND_B, "data.label_fraction": 0.5},
        "data.label_fraction=0.5: across domains all labels of the source are used, and what is unlabelled is the "
        "target's. Leave it out.",
    ),
    (
        {"data.protocol": "animalpose_to_cat", "data.label_fraction": 0.5},
        "data.label_fraction=0.5: across domains all labels of the source are used, and what is unlabelled is the "
        "target's. Leave it out.",
    ),
    (
        {"data.protocol": "animalpose_to_cat", "target": "b"},
        "data.target is not read with data.protocol=animalpose_to_cat: it has its own. Leave one out.",
    ),
    (
        {"data.protocol": "cub", "source": "a.json"},
        "data.source is not read with data.protocol=cub: that is for animalpose_to_cat and the like. Leave one out.",
    ),
    ({"data.val_from": "source"}, "data.val_from=source is for data.source and data.target. Leave it out."),
]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        *DOMAINS,
        (
            {"preset": "paper", "proxy.epochs": 3},
            "proxy.epochs=3 is fewer than the 21 epoch groups: the last thresholds would never be trained. "
            "Use at least 21 or a larger search.group_size.",
        ),
        (
            {"search.samples": 1, "search.searcher": "ppo2"},
            "search.samples=1 teaches search.searcher=ppo2 nothing: its advantage is always 0. Use at least 2.",
        ),
        (
            {"search.samples": 1, "search.searcher": "fixed"},
            "search.samples=1 teaches search.searcher=fixed nothing: its advantage is always 0. Use at least 2.",
        ),
        (
            {"rounds.continued": 0.25, "train.epoch": "data"},
            "rounds.continued=0.25 is a share of steps. Set train.epoch=steps.",
        ),
        (
            {"rounds.continued": 0.25, "train.epoch": "steps", "teacher.width": 2.0},
            "rounds.continued=0.25 goes on with one network, teacher.width=2.0 is another. Leave one out.",
        ),
        (
            {"rounds.continued": 0.25, "reward.source": "folds", "teacher.input_size": None},
            "rounds.continued=0.25 goes on from a network that has learned reward.source=folds. Leave one out.",
        ),
        (
            {"train.batch": 1, "train.labelled_share": 0.5},
            "train.batch=1 has no room for labelled and unlabelled images. Use at least 2 or "
            "train.labelled_share=null.",
        ),
        (
            {"teacher.batch": 1, "train.labelled_share": None, "method": "posecons"},
            "teacher.batch=1 has no room for labelled and unlabelled images. Use at least 2.",
        ),
        (
            {"model.weights": "w.pth"},
            "model.weights=w.pth is not read with model.init=random. "
            "Set model.init=pretrained, or leave model.weights out.",
        ),
        (
            {"preset": "paper", "select.score": "agreement"},
            "select.score=agreement needs several views. Set label.flip=true, label.rotations or label.scales.",
        ),
    ],
)
def test_settings_that_would_waste_a_training_are_refused(overrides: dict[str, Any], message: str) -> None:
    assert refused(overrides) == message


@pytest.mark.parametrize(
    "overrides",
    [
        {"preset": "paper", "proxy.epochs": 21},
        {"search.samples": 1, "search.searcher": "random"},
        {"search.samples": 1, "search.searcher": "manual"},
        {"model.weights": "w.pth", "model.init": "pretrained"},
        {"preset": "paper", "select.score": "agreement", "label.flip": True},
        {"preset": "paper", "select.score": "agreement", "label.rotations": [20]},
        {"preset": "paper", "select.score": "agreement", "label.scales": [0.9]},
        {"train.labelled_share": None},
        {"train.labelled_share": None, "train.batch": 1},
        {"train.labelled_share": 0.01},
        {**A_AND_B, "data.val": "c.json", "data.val_from": "source"},
        {"data.protocol": "animalpose_to_cat", "source": "people.json", "data.val_from": "source"},
    ],
)
def test_their_neighbours_are_not(overrides: dict[str, Any]) -> None:
    load(None, overrides)


@pytest.mark.parametrize("share", [0, 1, -0.5, float("nan")])
def test_a_share_of_the_batch_leaves_room_for_both_sets(share: float) -> None:
    assert refused({"train.labelled_share": share}).startswith("train.labelled_share=")


def test_another_network_has_a_backbone_of_its_own() -> None:
    of_preset = load(
        None, {"preset": "fast", "search.searcher": "ppo2", "teacher.model": "hrnet_w32", "proxy.model": "tiny"}
    )
    assert (of_preset.model.backbone, of_preset.taught().model.backbone) == ("resnet18", None)
    assert (of_preset.proxied().model.name, of_preset.proxied().model.backbone) == ("tiny", None)
    same = load(None, {"preset": "fast", "teacher.model": "simple_baseline", "teacher.input_size": 192})
    assert same.taught().model.backbone == "resnet18"


def test_networks_that_label_may_have_smaller_batches() -> None:
    config = load(None, {"train.batch": 64, "teacher.batch": 24, "proxy.batch": 8, "search.searcher": "ppo2"})
    assert (config.train.batch, config.taught().train.batch, config.proxied().train.batch) == (64, 24, 8)
    assert load(None, {"teacher.batch": 24, "teacher.first_batch": None}).taught(first=True).train.batch == 24
    first = load(None, {"train.batch": 64, "teacher.first_batch": 16})
    assert (first.taught(first=True).train.batch, first.taught().train.batch) == (16, 64)
    assert load(None, {"train.batch": 64}).taught().train.batch == 64


def test_the_network_with_few_labels_may_see_stronger_augmentation() -> None:
    augment = {"augment.rotate": 15, "augment.scale": 0.5, "augment.shift": 0.02, "augment.colour": 0.1}
    config = load(None, {**augment, "augment.cutout": 2, "teacher.first_augment": 2})
    own, taught = config.augment, config.taught(first=True).augment
    assert (taught.rotate, taught.scale, taught.shift, taught.colour) == (30, 0.9, 0.04, 0.2)  # a view has a size
    assert (taught.flip, taught.rotate_share, taught.cutout) == (own.flip, own.rotate_share, 2)
    assert config.taught().augment == config.proxied().augment == own  # later ones have many
    plain = load(None, {**augment, "teacher.first_augment": None})
    assert plain.taught(first=True).augment == plain.augment


def test_the_paper_s_algorithm_has_a_name_at_any_size() -> None:
    given = {"method": "placl-paper", "teacher.first_augment": 2.0, "search.steps": 3}
    config = load(None, {**given, "preset": "cpu"})
    start = {"search.initial": 0.5, "search.rise": 0.0}
    own = load(None, {"preset": "cpu", "search.steps": 3, "search.searcher": "ppo2", **start})
    assert (config.method, config.search.searcher, config.rounds.keep) == ("placl", "ppo2", "last")
    assert config.train.labelled_share is None
    assert config.teacher == Teacher(first_augment=2.0)  # what is named goes over it
    assert config.search == own.search
    assert (config.model, config.proxy, config.label) == (own.model, own.proxy, own.label)
    of_paper = load(None, {"preset": "paper"})
    assert load(None, {"preset": "paper", "method": "placl-paper"}) == of_paper  # whose algorithm it is


def test_the_paper_s_algorithm_is_found_by_its_name() -> None:
    with pytest.raises(InputError, match='Did you mean "placl-paper"'):
        load(None, {"method": "placl_paper"})


def test_a_preset_s_proxy_grows_with_the_groups_where_it_is_not_named() -> None:
    """So that nobody is refused for a number he did not write, and models of long trainings load."""
    assert load(None, {"train.epochs": 100}).proxy.epochs == 20
    assert load(None, {"train.epochs": 210}).proxy.epochs == 42
    assert load(None, {"train.epochs": 210, "proxy.epochs": 50, "search.searcher": "ppo2"}).proxy.epochs == 50


def test_a_file_that_is_missing_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.yaml: cannot be read \(No such file or directory\)\."):
        load(tmp_path / "nowhere.yaml")
    (tmp_path / "picture.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"picture\.yaml: is not valid YAML\."):
        load(tmp_path / "picture.yaml")


def test_a_section_with_every_line_commented_out_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("seed: 3\ntrain:\n  # lr: 0.1\n")
    assert load(file) == load(None, {"seed": 3})
    assert load(file, {"train.lr": 0.5}).train.lr == 0.5


# --- overrides and precedence


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train.lr=0.01", ("train.lr", 0.01)),
        ("train.epochs=5", ("train.epochs", 5)),
        (" label.flip =true", ("label.flip", True)),
        ("proxy.images=null", ("proxy.images", None)),
        ("label.rotations=[-30, 30]", ("label.rotations", [-30, 30])),
        ("data.labeled=a=b.json", ("data.labeled", "a=b.json")),
        ("model.name=", ("model.name", None)),
    ],
)
def test_overrides_are_yaml(text: str, expected: tuple[str, Any]) -> None:
    assert parse_override(text) == expected


@pytest.mark.parametrize("text", ["train.lr", "=3", "  =3"])
def test_an_override_needs_a_key_and_a_sign(text: str) -> None:
    with pytest.raises(InputError, match=r"is not of the form key=value, e\.g\. train\.lr=0\.001\."):
        parse_override(text)


def test_an_override_with_half_a_list_is_refused() -> None:
    with pytest.raises(InputError, match=r'the value in "a=\[1" is not valid YAML\.'):
        parse_override("a=[1")


def test_scientific_notation_is_a_number() -> None:
    assert load(None, dict([parse_override("train.lr=1e-3")])).train.lr == 0.001  # YAML 1.1 calls this text


def test_overrides_go_over_the_file_and_the_file_over_the_preset(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("preset: paper\ntrain: {lr: 0.5, batch: 7}\n")
    config = load(file, {"train.lr": 0.25})
    assert (config.train.lr, config.train.batch, config.train.epochs) == (0.25, 7, 210)


def test_one_path_stands_for_a_list_of_one() -> None:
    assert load(None, {"data.labeled": "a.json"}).data.labeled == (Path("a.json"),)
    assert load(None, {"data.labeled": ["a.json", "b.json"]}).data.labeled == (Path("a.json"), Path("b.json"))


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load().train.lr = 1.0


# --- dump, differences, proxy, groups


@pytest.mark.parametrize("preset", configuration.PRESETS)
def test_what_is_dumped_is_what_is_loaded(tmp_path: Path, preset: str) -> None:
    settings = {"preset": preset, "train.lr": 1e-7, "label.rotations": [-30, 30.5], "data.labeled": "a b.json"}
    config = load(None, settings)
    (tmp_path / "config.yaml").write_text(dump(config))
    assert load(tmp_path / "config.yaml") == config


def test_every_key_is_dumped() -> None:
    assert set(flat(yaml.safe_load(dump(load())))) == set(flat(Config().model_dump()))


def test_differences_name_keys_and_values() -> None:
    old = load(None, {"train.lr": 0.5, "label.rotations": []})
    new = load(None, {"train.lr": 0.25, "label.rotations": [30]})
    assert differences(old, new) == ["train.lr: 0.5 -> 0.25", "label.rotations: [] -> [30.0]"]
    assert differences(old, old) == []


def test_what_changes_no_result_is_no_difference() -> None:
    other = {"execute.where": "serial", "execute.workers": 7, "data.cache": "elsewhere"}
    assert differences(load(), load(None, other)) == []
    threads = load().execute.threads
    assert differences(load(), load(None, {"execute.threads": 5})) == [f"execute.threads: {threads} -> 5"]


def test_the_paper_has_21_groups() -> None:
    assert load(None, {"preset": "paper"}).groups == 21


@pytest.mark.parametrize(("epochs", "size", "groups"), [(210, 10, 21), (211, 10, 22), (5, 10, 1), (7, 1, 7)])
def test_the_last_group_may_be_short(epochs: int, size: int, groups: int) -> None:
    assert load(None, {"train.epochs": epochs, "search.group_size": size}).groups == groups


def test_a_proxy_of_nothing_is_the_full_training() -> None:
    config = load(None, {"preset": "paper"})
    assert config.proxied() == config


def test_a_proxy_changes_what_it_names_and_keeps_milestones_in_their_place() -> None:
    proxy = {"proxy.epochs": 21, "proxy.input_size": 64, "proxy.model": "hrnet_w18", "proxy.width": 0.5}
    config = load(None, {"preset": "paper", "proxy.steps_per_epoch": 3, **proxy})
    cheap = config.proxied()
    assert (cheap.model.name, cheap.model.input_size, cheap.model.width) == ("hrnet_w18", 64, 0.5)
    assert (cheap.train.epochs, cheap.train.steps_per_epoch, cheap.train.milestones) == (21, 3, (17, 20))
    expected = {"model.name", "model.input_size", "model.width", "train.epochs", "train.steps_per_epoch"}
    assert {line.split(":")[0] for line in differences(config, cheap)} == {*expected, "train.milestones"}


@pytest.mark.parametrize("first", ["placl.config", "placl.config_reading"])
def test_schema_and_reading_are_imported_in_any_order(first: str) -> None:
    code = (
        f"import {first}; from placl.config import load; from placl import config_reading as r; assert r.load is load"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_other_names_are_not_in_the_schema() -> None:
    with pytest.raises(AttributeError, match=r"module 'placl\.config' has no attribute 'laod'"):
        getattr(configuration, "la" + "od")


# --- presets


@pytest.mark.parametrize("name", configuration.PRESETS)
def test_a_preset_loads_and_knows_its_name(name: str) -> None:
    assert load(None, {"preset": name}).preset == read_preset(name)["preset"] == name


@pytest.mark.parametrize("name", configuration.PRESETS)
def test_a_preset_names_every_key_but_those_of_one_dataset(name: str) -> None:
    expected = {key for key in flat(Config().model_dump()) if not key.startswith("data.")}
    assert set(flat(read_preset(name))) == expected | {"data.context", "data.margin"}


@pytest.mark.parametrize("section", [field for field in Config.model_fields if field not in ("preset", "seed")])
def test_every_knob_is_described(section: str) -> None:
    annotation = Config.model_fields[section].annotation
    if isinstance(annotation, type) and issubclass(annotation, Section):
        assert annotation.__doc__
        assert [name for name, field in annotation.model_fields.items() if not field.description] == []
    else:
        assert Config.model_fields[section].description


def test_the_paper_preset_says_what_the_paper_says() -> None:
    found = flat(read_preset("paper"))
    assert {key: found[key] for key in PAPER_PRESET} == PAPER_PRESET


@pytest.mark.realdata
def test_the_paper_preset_against_the_text_of_the_paper(shared: Path) -> None:
    (file,) = (shared / "paper").glob("*.txt")
    text = " ".join(file.read_text(encoding="utf-8").split())

    def number(pattern: str) -> str:
        found = re.search(pattern, text)
        assert found, pattern
        return found[1]

    milestones = re.search(r"by a factor of \$(\d+)\$ at the (\d+)-th and (\d+)-th epochs", text)
    assert milestones
    size = re.search(r"using (HRNet-w\d+) backbone with the input size of \$(\d+) \\times (\d+)\$", text)
    assert size
    assert number(r"(Mean-Squared Error \(MSE\)) loss for \$N=\d+\$") == "Mean-Squared Error (MSE)"
    assert number(r"(Adam)~\\citep\{adam\} with a learning rate") == "Adam"
    told = {
        "search.steps": int(number(r"conducted for \$T = (\d+)\$ sampling steps")),
        "search.samples": int(number(r"in each step \$M = (\d+)\$ sets of parameters")),
        "search.clip": float(number(r"clipping threshold is \$\\eps = ([\d.]+)\$")),
        "search.lr": float(number(r"learning rate of \$\\alpha = ([\d.]+)\$")),
        "search.sigma": float(number(r"\$\\sigma\$ is fixed to \$([\d.]+)\$ in practice")),
        "rounds.count": int(number(r"We empirically use \$R=(\d+)\$ self-training rounds")),
        "search.group_size": int(number(r"group size \$G=(\d+)\$ for curriculum search")),
        "train.epochs": int(number(r"MSE\) loss for \$N=(\d+)\$ epochs per round")),
        "train.lr": float(number(r"with a learning rate of \$([\d.]+)\$ is adopted")),
        "train.milestones": [int(milestones[2]), int(milestones[3])],
        "model.name": size[1].lower().replace("-", "_"),
        "model.input_size": int(size[2]),
    }
    assert milestones[1] == "10"
    assert size[2] == size[3]
    assert told == {key: PAPER_PRESET[key] for key in told}
    found = flat(read_preset("paper"))
    assert told == {key: found[key] for key in told}


# --- placl.yaml


def test_a_dataset_file_is_the_data_section_relative_to_itself(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    file = tmp_path / "set" / "placl.yaml"
    file.write_text(
        "labeled: project/config.yaml\n"
        "unlabeled: [more, {path: clip.mp4, frames: 50, sampling: motion}]\n"
        "val: [{path: /data/all.json, split: val}]\n"
        "corrections: runs/a/corrections.jsonl\n"
        "label_fraction: 0.5\n"
    )
    data = load(None, {"data": str(file), "data.split_seed": 4}).data
    assert data.corrections == (tmp_path / "set/runs/a/corrections.jsonl",)
    assert data.labeled == (tmp_path / "set" / "project" / "config.yaml",)
    assert data.unlabeled == (
        tmp_path / "set" / "more",
        Source(path=tmp_path / "set" / "clip.mp4", frames=50, sampling="motion"),
    )
    assert data.val == (Source(path=Path("/data/all.json"), split="val"),)
    assert (data.label_fraction, data.split_seed) == (0.5, 4)


def test_keys_of_the_section_count_in_whatever_order(tmp_path: Path) -> None:
    # Were the dataset file read last, a training would quietly use every label.
    (tmp_path / "placl.yaml").write_text("labeled: a.json\nlabel_fraction: 0.5\n")
    (tmp_path / "config.yaml").write_text("data: placl.yaml\n")
    file, key = ("data", str(tmp_path / "placl.yaml")), ("data.label_fraction", 0.05)
    for overrides in ([file, key], [key, file]):
        assert load(None, dict(overrides)).data.label_fraction == 0.05
    assert load(tmp_path / "config.yaml", dict([key])).data.label_fraction == 0.05


@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        ({}, ("pckh", 0.5)),
        ({"reward.metric": "pckh"}, ("pckh", 0.5)),
        ({"reward.metric": "pckh", "reward.alpha": 0.2}, ("pckh", 0.2)),
        ({"reward.metric": "pck"}, ("pck", 0.1)),
    ],
)
def test_a_protocol_is_scored_as_in_the_paper(
    tmp_path: Path, reward: dict[str, Any], expected: tuple[str, float]
) -> None:
    config = load(None, {"data.protocol": "mpii", "data.root": str(tmp_path), **reward})
    assert (config.reward.metric, config.reward.alpha) == expected


def test_a_protocol_names_its_own_sources(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data\.test is not read with data\.protocol=cub"):
        load(None, {"data.protocol": "cub", "data.root": str(tmp_path), "data.test": "a.json"})


def test_source_and_target_have_short_names(tmp_path: Path) -> None:
    pairs = [parse_override(text) for text in ("source=[a.json, {path: b.json, keypoints: [x]}]", "target=photos")]
    data = load(None, dict(pairs)).data
    assert data.source == (Path("a.json"), Source(path=Path("b.json"), keypoints=("x",)))
    assert data.target == (Path("photos"),)
    assert data.across_domains
    (tmp_path / "set.yaml").write_text("source: a.json\ntarget: {path: b.json, classes: cat}\nval_from: source\n")
    data = load(None, {"data": str(tmp_path / "set.yaml")}).data
    assert data.source == (tmp_path / "a.json",)
    assert data.target == (Source(path=tmp_path / "b.json", classes=("cat",)),)
    assert 'unknown key "data.target.0.clases"' in refused({"source": "a.json", "target": {"path": "b", "clases": "c"}})


def test_a_configuration_may_name_a_dataset_file(tmp_path: Path) -> None:
    (tmp_path / "placl.yaml").write_text("data:\n  labeled: a.json\n")
    (tmp_path / "config.yaml").write_text("data: placl.yaml\ntrain: {lr: 0.5}\n")
    config = load(tmp_path / "config.yaml")
    assert config.data.labeled == (tmp_path / "a.json",)
    assert load(None, yaml.safe_load(dump(config))).data == config.data  # a run's config.yaml needs the file no more


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("labelled: a.json", r'placl\.yaml: unknown key "labelled"\. Did you mean "labeled"\?'),
        ("labeled: [{path: a.json, splt: val}]", r'unknown key "data.labeled.0.splt"\. Did you mean "split"\?'),
        ("labeled: [{path: a.mp4, sampling: evn}]", r'"evn" is not a value .* Did you mean "even"\?'),
        ("[1]", r"placl\.yaml: must be a mapping"),
        (None, r"placl\.yaml: cannot be read"),
    ],
)
def test_dataset_files_that_are_refused(tmp_path: Path, content: str | None, words: str) -> None:
    if content is not None:
        (tmp_path / "placl.yaml").write_text(content)
    with pytest.raises(InputError, match=words) as caught:
        load(None, {"data": str(tmp_path / "placl.yaml")})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [("search.steps", 3), ("search.pick", "best"), ("proxy.epochs", 20), ("rounds.finish", "search")],
)
def test_a_search_that_is_set_up_and_would_not_take_place(key: str, value: Any, tmp_path: Path) -> None:
    told = (
        f"{key} is not read: search.searcher=constant does not search. Set search.searcher=ppo2 too, or leave it out."
    )
    assert refused({key: value}) == told
    for searcher in ("ppo2", "constant"):  # named, it is known
        load(None, {key: value, "search.searcher": searcher})
    load(None, {key: value, "method": "placl-paper"})
    load(None, {key: value, "preset": "paper", "search.group_size": 20})
    load(None, {key: value, "method": "posedual"})  # which never searches


def test_search_settings_of_a_curriculum_without_a_search(tmp_path: Path) -> None:
    load(None, {"search.initial": 0.5, "search.rise": 0.0, "search.group_size": 10})
    load(None, {"proxy.epochs": None})  # nothing that a search would have cheaper
    file = tmp_path / "whole.yaml"
    file.write_text(dump(load()))  # names every key, the searcher too
    load(file)
    with pytest.raises(InputError, match=r"^search\.samples is not read"):  # whoever goes on from it is told, too
        load(file, {"search.samples": 9})
    file.write_text("search: {steps: 3, samples: 4}\n")
    with pytest.raises(InputError) as caught:
        load(file)
    assert str(caught.value) == (
        f"{file}: search.steps is not read: search.searcher=constant does not search. Set search.searcher=ppo2 too, or "
        "leave them out."
    )


def test_no_network_labels_that_sees_less_than_it_teaches() -> None:
    assert load(None, {"model.input_size": 256}).teacher.input_size is None
    assert load(None, {"model.input_size": 256, "teacher.input_size": 128}).teacher.input_size == 128
    assert load(None, {"model.input_size": 48}).teacher.input_size == 96
    assert load(None, {"train.batch": 16}).taught(first=True).train.batch == 16  # nor needs more memory
    assert load(None, {"train.batch": 48}).taught(first=True).train.batch == 32


def test_plain_pseudo_labelling_selects_nothing_by_itself() -> None:
    assert load(None, {"method": "pl"}).search.searcher != "constant"
    assert load(None, {"method": "pl", "search.searcher": "constant"}).search.initial == 0.2


def test_who_needs_a_validation_set() -> None:
    ppo2 = {"search.searcher": "ppo2"}
    assert not load().needs_val
    assert load(None, ppo2).needs_val
    assert not load(None, {**ppo2, "reward.source": "folds"}).needs_val
    assert load(None, {"method": "cl"}).needs_val
    assert not load(None, {**ppo2, "rounds.count": 0}).searching

"""``placl train``: settings from a file, pairs and flags; every bad input ends in one line and leaves nothing."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placl.api import Result
from placl.cli.train import flags, split_settings
from placl.config import Config
from placl.data.synthetic import write_animals
from placl.errors import InputError


def test_the_first_thing_without_a_sign_is_the_file(tmp_path: Path) -> None:
    (tmp_path / "settings").write_text("")
    file, pairs = split_settings(["train.lr=0.1", str(tmp_path / "settings"), "seed=3", "train.lr=0.2"])
    assert file == tmp_path / "settings"
    assert pairs == {"train.lr": 0.2, "seed": 3}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], '"nonsense" is neither a configuration file nor key=value'),
        (["ann.json"], "write --labeled ann.json"),
        (["."], "write --unlabeled ."),
        (["a.yaml", "b.yaml"], "a.yaml and b.yaml are two configurations"),
        (["=3"], "is not of the form key=value"),
        (["a=[1"], "is not valid YAML"),
    ],
)
def test_arguments_that_are_neither(arguments: list[str], words: str) -> None:
    with pytest.raises(InputError) as error:
        split_settings(arguments)
    assert words in str(error.value)


def test_flags_that_are_not_given_set_nothing() -> None:
    assert flags(None, None, None, None, None, None, None, None) == {}
    assert flags([Path("a"), Path("b")], None, [], None, None, ("x",), "fast", 0) == {
        "data.labeled": ["a", "b"],
        "data.keypoints": ["x"],
        "preset": "fast",
        "seed": 0,
    }


COLLECTED = {"health": ["round_1: rewards hardly vary."], "domains": {}, "only_label": ["round_0"]}


class Stub:
    """Stands in for the training and keeps what it was asked for."""

    def __call__(self, config: Config, out: Path, watch: Any) -> Result:
        self.config, self.out = config, out
        row = {"metric": "PCK@0.1", "val": float("nan"), "test": None, "labels": 5, "selected": None, "seconds": 1.5}
        return Result(out, [{"stage": "round_0", **row}, {"stage": "round_1", **row, "selected": 0.25}], "round_1", 9.0)


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Stub:
    stub = Stub()
    monkeypatch.setattr("placl.api.train", stub)
    monkeypatch.setattr("placl.report.collecting.collect", lambda run: COLLECTED)
    return stub


def test_flags_win_over_pairs_and_pairs_over_the_file(placl: Callable, stub: Stub, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("seed: 1\ntrain: {lr: 0.5, batch: 7}\ndata: {labeled: f.json, val: v.json}\n")
    ended = placl("train", file, "train.lr=0.25", "seed=2", "data.labeled=p.json", "--seed", 3, "--labeled", "l.json")
    assert ended.code == 0
    assert (stub.config.seed, stub.config.train.lr, stub.config.train.batch) == (3, 0.25, 7)
    assert stub.config.data.labeled == (Path("l.json"),)
    assert stub.config.data.val == (Path("v.json"),)


def test_every_flag_has_its_key(placl: Callable, stub: Stub) -> None:
    placl(
        *("train", "--labeled", "a", "--labeled", "b", "--images", "i", "--unlabeled", "u", "--val", "v"),
        *("--test", "t", "--keypoints", "nose, tail", "--preset", "fast", "--out", "runs/x"),
    )
    data = stub.config.data
    assert (data.labeled, data.images, data.unlabeled) == ((Path("a"), Path("b")), Path("i"), (Path("u"),))
    assert (data.val, data.test, data.keypoints) == ((Path("v"),), (Path("t"),), ("nose", "tail"))
    assert (stub.config.preset, stub.out) == ("fast", Path("runs/x"))


def test_the_default_folder_is_said(placl: Callable, stub: Stub) -> None:
    assert placl("train").err == "run folder: runs/train (--out names another)\n"
    assert stub.out == Path("runs/train")


def test_the_table_and_the_next_command(placl: Callable, stub: Stub) -> None:
    ended = placl("train", "--quiet")
    assert ended.err == ""
    lines = [line.split() for line in ended.out.splitlines() if line.strip()]
    assert ["stage", "val", "test", "labels", "selected", "training,", "s"] in lines
    assert ["round_1", "*", "-", "-", "5", "25", "%", "1.5"] in lines
    assert ended.out.endswith("Next: placl predict runs/train IMAGE\n")


def test_scores_of_networks_that_only_label_are_said_to_be_others(
    placl: Callable, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "round_0: trained only to label, with other settings (teacher) than round_1, so scores differ"
    assert line in placl("train").out.splitlines()
    monkeypatch.setitem(COLLECTED, "only_label", [])
    assert "only to label" not in placl("train").out


def test_warnings_and_the_report_are_named(placl: Callable, stub: Stub) -> None:
    lines = placl("train", "--quiet", "--out", "my runs/it's").out.splitlines()
    assert lines[-3:] == [
        "warning: round_1: rewards hardly vary.",
        "the report is my runs/it's/report.html",
        """* the model is in my runs/it's/best. Next: placl predict 'my runs/it'"'"'s' IMAGE""",
    ]
    content = json.loads(placl("train", "--json").out)
    assert (content["report"], content["health"]) == ("runs/train/report.html", ["round_1: rewards hardly vary."])


def test_json_is_one_document_without_nan(placl: Callable, stub: Stub) -> None:
    ended = placl("train", "--json")
    content = json.loads(ended.out, parse_constant=pytest.fail)
    assert (content["run"], content["best"], content["metric"]) == ("runs/train", "round_1", "PCK@0.1")
    assert content["stages"][1]["val"] is None
    assert content["stages"][1]["selected"] == 0.25
    assert content["gap_recovered"] is None


# What is wrong with an annotation file: changes to its content, and words of the complaint.
def first(content: dict[str, Any]) -> dict[str, Any]:
    annotation: dict[str, Any] = content["annotations"][0]
    return annotation


def no_labels(content: dict[str, Any]) -> None:
    for annotation in content["annotations"]:
        annotation["keypoints"] = [0] * 42


BAD_FILES: dict[str, tuple[Callable[[dict[str, Any]], object], tuple[str, ...]]] = {
    "missing image": (lambda c: c["images"][0].update(file_name="gone.jpg"), ('image 1 "gone.jpg" does not exist',)),
    "no coco": (lambda c: c.pop("annotations"), ('"annotations" is missing', "Is this a COCO file?")),
    "keypoint count": (
        lambda c: first(c).update(keypoints=[1, 1, 2] * 12),
        ("annotation 1 has 12 keypoints", 'category "animal" has 14', "--keypoints"),
    ),
    "nan": (lambda c: first(c)["keypoints"].__setitem__(0, float("nan")), ("annotation 1", "not finite")),
    "infinity": (lambda c: first(c)["keypoints"].__setitem__(4, float("inf")), ("annotation 1", "not finite")),
    "box": (lambda c: first(c).update(bbox=[4, 4, 0, 9]), ("annotation 1", "has no size")),
    "no labels": (no_labels, ("no labelled instance",)),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_annotations(placl: Callable, animals: Path, small: list[str], tmp_path: Path, case: str) -> None:
    change, words = BAD_FILES[case]
    content = json.loads(animals.read_text())
    change(content)
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps(content))
    out = tmp_path / "runs" / "x"
    placl("train", "--labeled", bad, "--images", animals.parent, "--out", out, "-q", *small).refused("bad.json", *words)
    assert not out.parent.exists()


@pytest.mark.parametrize("content", ["no json", "[]", '{"images": 3}'])
def test_files_that_are_no_annotations(placl: Callable, small: list[str], tmp_path: Path, content: str) -> None:
    (tmp_path / "bad.json").write_text(content)
    placl("train", "--labeled", tmp_path / "bad.json", "--out", tmp_path / "x", "-q", *small).refused("bad.json")
    assert not (tmp_path / "x").exists()


def test_a_truncated_labelled_image(placl: Callable, animals: Path, small: list[str], tmp_path: Path) -> None:
    shutil.copytree(animals.parent, tmp_path / "set")
    image = tmp_path / "set" / "images" / "000007.jpg"
    image.write_bytes(image.read_bytes()[:-300])
    ended = placl("train", "--labeled", tmp_path / "set" / "annotations.json", "--out", tmp_path / "x", "-q", *small)
    ended.refused("000007.jpg: cannot be read as an image", "annotations.json")
    assert not (tmp_path / "x").exists()
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["train.batch=64", "train.epoch=data"], ("labelled instances are fewer than a batch of 64", "train.batch=")),
        (["data.label_fraction=1"], ("no unlabelled image", "--unlabeled")),
        (["data.val_fraction=0"], ("validation split is empty", "data.val")),
        (["train.epocs=3"], ('unknown key "train.epocs"', 'Did you mean "epochs"?')),
        (["tran.epochs=3"], ('unknown key "tran"', 'Did you mean "train"?')),
        (["select.level=instanc"], ('"instanc" is not a value of select.level', 'Did you mean "instance"?')),
        (["train.lr=fast"], ("train.lr",)),
        (["train.epochs=0"], ("train.epochs",)),
        (["model.name=tinny"], ("model.name=tinny", 'Did you mean "tiny"?')),
        (["proxy.model=tinny"], ("model.name=tinny", 'Did you mean "tiny"?')),
        (["preset=quick"], ('preset "quick" is unknown', "cpu, fast, paper")),
        (["nowhere.yaml"], ("nowhere.yaml: cannot be read",)),
        (["--unlabeled", "nowhere"], ("nowhere: does not exist",)),
    ],
)
def test_bad_settings(
    placl: Callable, animals: Path, small: list[str], tmp_path: Path, settings: list[str], words: tuple[str, ...]
) -> None:
    out = tmp_path / "x"
    placl("train", "--labeled", animals, "--out", out, "-q", *small, *settings).refused(*words)
    assert not out.exists()


@pytest.fixture(scope="session")
def domains(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """old.json: 24 labelled animals of two classes; new/: images; test/: 6 animals, otherwise spelled."""
    folder = tmp_path_factory.mktemp("domains")
    content = json.loads(write_animals(folder, 24, seed=0, size=48).read_text())
    category = content["categories"][0]
    content["categories"] = [{**category, "name": "cat"}, {**category, "id": 2, "name": "dog"}]
    for annotation in content["annotations"][12:]:
        annotation["category_id"] = 2
    (folder / "old.json").write_text(json.dumps(content))
    write_animals(folder / "new", 10, seed=1, size=48)
    test = json.loads(write_animals(folder / "test", 6, seed=2, size=48).read_text())
    names = test["categories"][0]["keypoints"]
    test["categories"][0]["keypoints"] = ["Nose", "L_EarBase", "R_EarBase", *names[3:10], "s", "t", "u", "v"]
    (folder / "test" / "annotations.json").write_text(json.dumps(test))
    return folder


def test_across_domains_the_mapping_is_said_and_kept(
    placl: Callable, domains: Path, small: list[str], tmp_path: Path
) -> None:
    settings = [one for one in small if not one.startswith("data.")]
    given = [f"source={domains / 'old.json'}", f"target={domains / 'new' / 'images'}", "data.val_fraction=0.25"]
    test = domains / "test" / "annotations.json"
    ended = placl("train", *given, "--test", test, "--out", tmp_path / "run", *settings, "--json")
    assert ended.code == 0, ended.err
    content = json.loads(ended.out)
    assert content["labels"] == {"labelled": 18, "unlabelled": 10, "val": 6, "test": 6}
    assert (content["domains"]["val"], content["domains"]["test"]) == ("source", "target")
    assert content["domains"]["keypoints"][1] == {"name": str(test), "shared": 10, "unused": ["s", "t", "u", "v"]}
    assert (
        "10 of 14 keypoints are trained: nose = Nose, left_ear = L_EarBase, right_ear = R_EarBase, neck," in ended.err
    )
    kept = json.loads((tmp_path / "run" / "keypoints.json").read_text())
    assert kept["keypoints"][:4] == ["Nose", "L_EarBase", "R_EarBase", "neck"]
    table = placl("train", *given, "--test", test, "--out", tmp_path / "run", *settings, "--quiet").out
    assert "val (source)" in table
    assert "test (target)" in table
    assert kept["unused"] == {
        str(domains / "old.json"): ["left_hind_knee", "left_hind_paw", "right_hind_knee", "right_hind_paw"],
        str(test): ["s", "t", "u", "v"],
    }
    again = placl("evaluate", tmp_path / "run", "--json")  # on its own test split
    assert json.loads(again.out)["keypoints"] == 6 * 10


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["source={path: old.json, classes: [cat, ape]}", "target=new/images"], ('has no class "ape"', "cat, dog")),
        (["source=old.json", "target=test/annotations.json"], ("6 of the target's training", "ignore_target_labels")),
        (["source=bare.json", "target=new/images"], ("bare.json: no labelled instance to train on",)),
        (["source={path: half.json, classes: [cat, dog]}", "target=new/images"], ("class dog has no labelled",)),
        (["source=old.json", "target=birds.json", "data.ignore_target_labels=true"], ("no keypoint in common", "beak")),
        (["source=old.json"], ("data.source needs data.target", "target=PATH")),
    ],
)
def test_domains_that_do_not_fit(
    placl: Callable, domains: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], words: tuple[str]
) -> None:
    monkeypatch.chdir(domains)
    content = json.loads((domains / "old.json").read_text())
    names = [f"beak{i}" for i in range(14)]
    birds = {**content, "categories": [{**one, "keypoints": names} for one in content["categories"]]}
    (domains / "birds.json").write_text(json.dumps(birds))
    for file, rows in (("half.json", slice(12, None)), ("bare.json", slice(None))):
        for annotation in content["annotations"][rows]:
            annotation["keypoints"] = [0] * 42
        (domains / file).write_text(json.dumps(content))
    placl("train", *given, "--out", tmp_path / "x", "-q").refused(*words)
    assert not (tmp_path / "x").exists()


def test_no_labels_named(placl: Callable, tmp_path: Path) -> None:
    placl("train", "--out", tmp_path / "x", "-q").refused("no labels", "--labeled")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("below", [False, True])
def test_a_run_folder_that_is_a_file(placl: Callable, animals: Path, tmp_path: Path, below: bool) -> None:
    (tmp_path / "x").write_text("precious")
    out = tmp_path / "x" / "y" if below else tmp_path / "x"
    placl("train", "--labeled", animals, "--out", out, "-q").refused("is a file", "--out")
    assert (tmp_path / "x").read_text() == "precious"


def test_a_folder_of_something_else(placl: Callable, animals: Path, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "thesis.txt").write_text("precious")
    placl("train", "--labeled", animals, "--out", tmp_path / "x", "-q").refused("is not empty and not a run")
    assert os.listdir(tmp_path / "x") == ["thesis.txt"]


def test_a_full_disk_and_then_room_again(
    placl: Callable, animals: Path, small: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "train", "--labeled", animals, "--out", tmp_path / "x", "-q", *small, "rounds.count=0"
    sync, room = os.fsync, 6

    def fsync(file: int) -> None:
        nonlocal room
        room -= 1
        if room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(file)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        placl(*command).refused("no space left on the disk", "run the same command again", code=1)
    assert [file.name for file in (tmp_path / "x").rglob("*.part")] == []
    assert not (tmp_path / "x" / "best").exists()
    assert placl(*command).code == 0
    assert (tmp_path / "x" / "best" / "model.yaml").exists()


def test_unreadable_unlabelled_images_are_skipped_counted_and_named(
    placl: Callable, animals: Path, small: list[str], tmp_path: Path
) -> None:
    more = write_animals(tmp_path / "more", 10, seed=1, size=64).parent / "images"
    broken = more / "000001.jpg"
    broken.write_bytes(broken.read_bytes()[:200])
    out = tmp_path / "x"
    ended = placl("train", "--labeled", animals, "--unlabeled", more, "--out", out, "--json", *small)
    assert ended.code == 0
    skipped = json.loads((out / "skipped.json").read_text())
    (named,) = skipped["images"]
    assert skipped["count"] == 1
    assert named.startswith(f"{broken}: ")
    assert any(line.endswith(named) for line in ended.err.splitlines())
    # 48 for training, a fifth of them for validation; of the other 38, 15 with labels
    assert json.loads(ended.out)["labels"] == {"labelled": 15, "unlabelled": 23 + 9, "val": 10, "test": 12}

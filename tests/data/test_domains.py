"""Labels of one dataset, images of another: roles, refusals, and files that name whole datasets."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from placl.config import Data, Source
from placl.data.load import Dataset, load_dataset, read_instances
from placl.data.synthetic import KEYPOINTS, write_animals
from placl.errors import InputError

SPELLED = (
    "Nose", "L_EarBase", "R_EarBase", "Neck", "TailBase", "tail_tip", "L_F_Knee", "L_F_Paw", "R_F_Knee", "R_F_Paw",
    "L_B_Knee", "L_B_Paw", "R_B_Knee", "R_B_Hoof",
)  # fmt: skip


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """old/ and new/, each with images/ and annotations.json of 8 and 6 animals; people/ with two other keypoints."""
    folder = tmp_path_factory.mktemp("animals")
    for seed, (name, count) in enumerate({"old": 8, "new": 6, "people": 4}.items()):
        write_animals(folder / name, count, seed, size=48)
    content = json.loads((folder / "people" / "annotations.json").read_text())
    content["categories"][0] |= {"name": "person", "keypoints": ["left_ear", "nose", "left_wrist"], "skeleton": []}
    content["categories"][0]["flip_pairs"] = []
    for annotation in content["annotations"]:
        annotation["keypoints"] = [5, 6, 2, 7, 8, 2, 9, 10, 1]
    (folder / "people" / "annotations.json").write_text(json.dumps(content))
    return folder


def written(drawn: Path, name: str, file: str, **changes: Any) -> Path:
    """A copy of an annotation file beside its images: ``split`` and ``classes`` by image, ``keypoints`` renamed."""
    content = json.loads((drawn / name / "annotations.json").read_text())
    for image, split in zip(content["images"], changes.get("split", ()), strict=False):
        image["split"] = split
    if "classes" in changes:
        names = sorted(set(changes["classes"]))
        content["categories"] = [{**content["categories"][0], "id": i, "name": c} for i, c in enumerate(names)]
        for annotation, name_ in zip(content["annotations"], changes["classes"], strict=True):
            annotation["category_id"] = names.index(name_)
    if "keypoints" in changes:
        content["categories"][0]["keypoints"] = list(changes["keypoints"])
    for row in changes.get("bare", ()):
        content["annotations"][row]["keypoints"] = []
    to = drawn / name / file
    to.write_text(json.dumps(content))
    return to


def roles(**settings: Any) -> dict[str, int]:
    return dict(Counter(read_instances(Data(**settings))[1].tolist()))


def refused(**settings: Any) -> str:
    with pytest.raises(InputError) as caught:
        read_instances(Data(**settings))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def load(tmp_path: Path, **settings: Any) -> Dataset:
    return load_dataset(Data(cache=tmp_path / "cache", **settings), 32)


def test_labels_of_the_source_and_images_of_the_target(drawn: Path, tmp_path: Path) -> None:
    dataset = load(tmp_path, source=[drawn / "old" / "annotations.json"], target=[drawn / "new" / "images"])
    assert dataset.source.tolist() == ["labelled"] * 8 + ["unlabelled"] * 6
    assert dataset.pool.labelled.tolist() == [True] * 8 + [False] * 6
    assert dataset.notes == (
        "the target has no labelled validation part: held-out source instances validate.",
        f"{drawn / 'old' / 'annotations.json'}: all 14 keypoints are trained.",
    )


def test_the_targets_names_are_the_training_s(drawn: Path, tmp_path: Path) -> None:
    test = written(drawn, "new", "test.json", keypoints=SPELLED)
    plain = drawn / "people" / "images"
    dataset = load(tmp_path, source=[drawn / "old" / "annotations.json"], target=[plain], test=[test])
    assert dataset.pool.skeleton.keypoints == SPELLED
    assert dataset.shared is not None
    maps = dataset.shared.to_dict()["maps"][str(drawn / "old" / "annotations.json")]
    assert maps == dict(zip(KEYPOINTS, SPELLED, strict=True))


def test_a_source_is_renamed_by_hand(drawn: Path) -> None:
    names = ["a", "left_ear", *(f"x{i}" for i in range(12))]
    given = Source(path=written(drawn, "old", "odd.json", keypoints=names), keypoints=KEYPOINTS)
    instances, *_ = read_instances(Data(source=[given], target=[drawn / "new" / "images"]))
    assert instances.skeleton is not None
    assert instances.skeleton.keypoints == KEYPOINTS


def test_several_sources_label_what_they_have(drawn: Path) -> None:
    sources = [drawn / "old" / "annotations.json", drawn / "people" / "annotations.json"]
    instances, role, notes = read_instances(Data(source=sources, target=[drawn / "new" / "images"]))
    assert role.tolist() == ["labelled"] * 12 + ["unlabelled"] * 6
    people = instances.visibility[8:12]
    known = [KEYPOINTS.index(name) for name in ("nose", "left_ear", "left_front_knee")]
    assert people[:, known].tolist() == [[2, 2, 1]] * 4
    assert people.sum() == 4 * 5
    assert any("3 of 3 keypoints are trained: nose, left_ear, left_wrist = left_front_knee" in note for note in notes)


def test_labels_of_the_target_by_mistake_are_refused_and_on_request_taken_off(drawn: Path, tmp_path: Path) -> None:
    new, old = drawn / "new" / "annotations.json", drawn / "old" / "annotations.json"
    assert refused(source=[old], target=[new]) == (
        f"{new}: 6 of the target's training instances have labels. Set data.ignore_target_labels=true to train on "
        "their images alone; labels to train on belong into source."
    )
    dataset = load(tmp_path, source=[old], target=[new], ignore_target_labels=True)
    hidden = dataset.source == "unlabelled"
    assert hidden.sum() == 6
    assert not dataset.pool.visibility[hidden].any()
    assert not dataset.pool.keypoints[hidden].any()


def test_a_targets_own_splits_hold(drawn: Path) -> None:
    split = ["train", "train", "val", "val", "val", "test"]
    bare = written(drawn, "new", "bare.json", split=split, bare=(0, 1))
    old = drawn / "old" / "annotations.json"
    assert roles(source=[old], target=[bare]) == {"labelled": 8, "unlabelled": 2, "val": 3, "test": 1}
    assert roles(source=[old], target=[bare], val_from="source") == {"labelled": 8, "unlabelled": 2, "test": 1}
    labelled = written(drawn, "new", "full.json", split=split)
    assert "2 of the target's training instances have labels" in refused(source=[old], target=[labelled])


def test_a_source_may_bring_its_own_validation_part(drawn: Path) -> None:
    old = written(drawn, "old", "split.json", split=["train"] * 5 + ["val", "val", "test"])
    bare = written(drawn, "new", "val.json", split=["train"] * 4 + ["val"] * 2, bare=range(4))
    assert roles(source=[old], target=[bare]) == {"labelled": 5, "unlabelled": 4, "val": 2}
    instances, role, notes = read_instances(Data(source=[old], target=[bare], val_from="source"))
    assert dict(Counter(role.tolist())) == {"labelled": 5, "unlabelled": 4, "val": 2}
    assert {instances.images[i].parent.parent.name for i in instances.image_index[role == "val"]} == {"old"}
    assert f"{old}: 1 test and unlabelled instances of the source take no part." in notes


def test_classes_of_one_file_are_source_and_target(drawn: Path) -> None:
    file = written(
        drawn, "old", "kinds.json", classes=["cat", "dog"] * 4, split=["train"] * 4 + ["val"] * 2 + ["test"] * 2
    )
    given = {"source": [Source(path=file, classes=("dog",))], "target": [Source(path=file, classes=("cat",))]}
    instances, role, notes = read_instances(Data(**given, ignore_target_labels=True))
    kinds = {name: {instances.classes[i] for i in (role == name).nonzero()[0]} for name in set(role.tolist())}
    assert kinds == {"labelled": {"dog"}, "unlabelled": {"cat"}, "val": {"cat"}, "test": {"cat"}}
    assert f"{file} (dog): all 14 keypoints are trained." in notes
    given["source"] = [Source(path=file, classes=("ape",))]
    assert refused(**given) == f'{file}: has no class "ape". Known here: cat, dog.'


def test_a_source_class_without_labels_is_named(drawn: Path) -> None:
    file = written(drawn, "old", "bare.json", classes=["cat", "dog"] * 4, bare=(0, 2, 4, 6))
    given = Source(path=file, classes=("dog", "cat"))
    told = refused(source=[given], target=[drawn / "new" / "images"])
    assert told == f"{file}: class cat has no labelled instance to train on."
    file = written(drawn, "old", "empty.json", bare=range(8))
    told = refused(source=[file], target=[drawn / "new" / "images"])
    assert told == f"{file}: no labelled instance to train on: no annotation has a keypoint with v > 0."


def test_dataset_files_stand_for_their_data(drawn: Path) -> None:
    old, new = drawn / "old" / "placl.yaml", drawn / "new" / "placl.yaml"
    old.write_text("labeled: annotations.json\nval_fraction: 0.5\n")
    written(drawn, "new", "val.json", split=["val"] * 2 + ["train"] * 4)
    new.write_text("unlabeled: [{path: val.json, split: train}]\nval: [{path: val.json, split: val}]\n")
    _, role, notes = read_instances(Data(source=[old], target=[new]))
    assert dict(Counter(role.tolist())) == {"labelled": 8, "unlabelled": 4, "val": 2}
    assert f"{old}: val_fraction: not read here; data.KEY=VALUE sets it for this training." in notes
    new.write_text("labeled: annotations.json\n")
    assert "6 of the target's training instances have labels" in refused(source=[old], target=[new])


def test_dataset_files_that_are_refused(drawn: Path) -> None:
    file, images = drawn / "old" / "odd.yaml", drawn / "new" / "images"
    file.write_text("source: annotations.json\ntarget: images\n")
    assert refused(source=[file], target=[images]) == (
        f"{file}: has a source and a target itself. Name it with data={file}."
    )
    file.write_text("labelled: annotations.json\n")
    assert 'unknown key "labelled"' in refused(source=[file], target=[images])
    file.write_text("labeled: annotations.json\n")
    told = refused(source=[Source(path=file, classes=("cat",))], target=[images])
    assert told == f"{file}: is a dataset file. Write classes into it, at the source that it is of."


def test_images_of_the_source_are_not_the_targets(drawn: Path) -> None:
    old = drawn / "old" / "annotations.json"
    _, role, notes = read_instances(Data(source=[old], target=[drawn / "old" / "images", drawn / "new" / "images"]))
    assert dict(Counter(role.tolist())) == {"labelled": 8, "unlabelled": 6}
    assert f"{drawn / 'old' / 'images'}: 8 instances are of images that other files name; left out." in notes


def test_a_target_whose_images_are_all_the_sources_is_refused(drawn: Path) -> None:
    old = drawn / "old" / "annotations.json"
    said = refused(source=[old], target=[old], ignore_target_labels=True)
    assert said.startswith(f"{old}: no image of the target is left: the source has all of them.")
    assert said == refused(source=[old], target=[old, drawn / "old" / "images"], ignore_target_labels=True)


def test_whose_labels_validate_is_kept(drawn: Path, tmp_path: Path) -> None:
    old, new = drawn / "old" / "annotations.json", drawn / "new" / "annotations.json"
    plain = drawn / "people" / "images"
    for settings, expected in (
        ({}, "source"),
        ({"val": [new]}, "target"),
        ({"val": [new], "val_from": "source"}, "source"),
    ):
        dataset = load(tmp_path, source=[old], target=[plain], **settings)
        assert dataset.shared is not None
        assert dataset.shared.to_dict()["val_of"] == expected
    assert "data.val_from=source: 6 labelled validation instances of the target take no part." in dataset.notes


def test_what_is_nowhere_is_named(drawn: Path, tmp_path: Path) -> None:
    old = drawn / "old" / "annotations.json"
    assert f"{tmp_path / 'x'}: does not exist" in refused(source=[old], target=[tmp_path / "x"])
    assert f"{tmp_path / 'x.yaml'}: does not exist" in refused(source=[tmp_path / "x.yaml"], target=[old])

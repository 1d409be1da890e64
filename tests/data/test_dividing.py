"""Dividing a dataset into files: the parts, that none leaks, and that a training takes them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from placl import config as configuration
from placl.data.dividing import divide, without_labels
from placl.data.formats.coco import read_coco
from placl.data.formats.format import Options
from placl.data.load import load_dataset
from placl.data.synthetic import write_animals
from placl.errors import InputError


@pytest.fixture
def animals_file(tmp_path: Path) -> Path:
    return write_animals(tmp_path / "animals", 20, seed=3, size=48)


def test_parts_are_disjoint_and_whole(animals_file: Path, tmp_path: Path) -> None:
    done = divide(animals_file, tmp_path / "parts", label_fraction=0.25, val_fraction=0.2, test_fraction=0.1, seed=1)
    assert done.counts == {"labelled": 4, "unlabelled": 10, "val": 4, "test": 2}
    images = [{image["file_name"] for image in json.loads(file.read_text())["images"]} for file in done.files]
    assert sum(map(len, images)) == len(set().union(*images)) == 20


def test_the_unlabelled_file_has_no_label(animals_file: Path, tmp_path: Path) -> None:
    divide(animals_file, tmp_path / "parts", label_fraction=0.25)
    text = (tmp_path / "parts" / "unlabeled.json").read_text()
    assert all(not annotation["keypoints"] for annotation in json.loads(text)["annotations"])


def test_a_training_takes_the_dataset_file(animals_file: Path, tmp_path: Path) -> None:
    done = divide(animals_file, tmp_path / "parts", label_fraction=0.25, test_fraction=0.1)
    config = configuration.load(None, {"data": str(done.dataset), "data.cache": str(tmp_path / "cache")})
    dataset = load_dataset(config.data, 32)
    found = {role: int((dataset.source == role).sum()) for role in ("labelled", "unlabelled", "val", "test")}
    assert found == done.counts
    assert not dataset.pool.visibility[dataset.source == "unlabelled"].any()


def test_the_same_seed_divides_alike(animals_file: Path, tmp_path: Path) -> None:
    texts = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        divide(animals_file, tmp_path / name, label_fraction=0.5, seed=seed)
        texts.append((tmp_path / name / "labeled.json").read_text())
    assert texts[0] == texts[1] != texts[2]


def test_boxes_around_keypoints_go_with_the_labels(animals_file: Path) -> None:
    content = json.loads(animals_file.read_text())
    for annotation in content["annotations"]:
        del annotation["bbox"]
    animals_file.write_text(json.dumps(content))
    instances = read_coco(animals_file)
    assert instances.drawn is not None
    assert instances.drawn.all()
    plain = without_labels(instances)
    assert np.isnan(plain.boxes).all()
    assert plain.skeleton is None
    assert plain.drawn is None


def test_one_image_is_on_one_side(animals_file: Path, tmp_path: Path) -> None:
    content = json.loads(animals_file.read_text())
    bare = [  # on every image an animal that nobody has labelled
        {"id": 1000 + i, "image_id": image["id"], "category_id": 1, "bbox": [1, 1, 9, 9], "keypoints": []}
        for i, image in enumerate(content["images"])
    ]
    for record in bare:
        record["keypoints"] = [0] * len(content["annotations"][0]["keypoints"])
    content["annotations"] += bare
    animals_file.write_text(json.dumps(content))
    done = divide(animals_file, tmp_path / "parts", label_fraction=0.25, val_fraction=0.2, test_fraction=0.1, seed=1)
    images = [{image["file_name"] for image in json.loads(file.read_text())["images"]} for file in done.files]
    assert sum(map(len, images)) == len(set().union(*images)) == 20
    assert done.counts == {"labelled": 4, "unlabelled": 20, "val": 4, "test": 2}
    assert done.notes[-1] == (
        "10 unlabelled instances are left out: they are on images of labelled, validation or test instances."
    )


def test_official_test_images_stay_test_images(cub_folder: Path, tmp_path: Path) -> None:
    done = divide(cub_folder, tmp_path / "parts", val_fraction=0.5, test_fraction=0.5)
    assert done.counts == {"labelled": 1, "val": 1, "test": 2}
    assert _stems(tmp_path / "parts" / "test.json") == {"2", "4"}  # train_test_split.txt says so
    assert done.notes[-1] == (
        f"{cub_folder}: has splits of its own, which hold here: 2 test instances; the others are divided."
    )


def test_validation_images_of_a_source_stay_and_a_test_is_drawn_from_the_others(
    animals_file: Path, tmp_path: Path
) -> None:
    content = json.loads(animals_file.read_text())
    for image in content["images"][:5]:
        image["split"] = "valid"
    animals_file.write_text(json.dumps(content))
    done = divide(animals_file, tmp_path / "parts", label_fraction=0.5, val_fraction=0.2, test_fraction=0.2)
    assert done.counts == {"labelled": 6, "unlabelled": 6, "val": 5, "test": 3}
    assert _stems(tmp_path / "parts" / "val.json") == {Path(image["file_name"]).stem for image in content["images"][:5]}


def test_a_source_without_training_images_is_refused(animals_file: Path, tmp_path: Path) -> None:
    content = json.loads(animals_file.read_text())
    for image in content["images"]:
        image["split"] = "test"
    animals_file.write_text(json.dumps(content))
    with pytest.raises(InputError, match="all its labelled images are for validation or test"):
        divide(animals_file, tmp_path / "parts")


def _stems(file: Path) -> set[str]:
    return {Path(image["file_name"]).stem for image in json.loads(file.read_text())["images"]}


def test_what_is_there_is_not_overwritten(animals_file: Path, tmp_path: Path) -> None:
    divide(animals_file, tmp_path / "parts", seed=1)
    before = (tmp_path / "parts" / "labeled.json").read_bytes()
    with pytest.raises(
        InputError, match=r"labeled\.json: is there already\. Name another folder .* or pass --overwrite"
    ):
        divide(animals_file, tmp_path / "parts", seed=2)
    assert (tmp_path / "parts" / "labeled.json").read_bytes() == before
    divide(animals_file, tmp_path / "parts", seed=2, overwrite=True)
    assert (tmp_path / "parts" / "labeled.json").read_bytes() != before


@pytest.mark.parametrize("by", ["file", "folder", "link"])
def test_the_source_is_never_overwritten(animals_file: Path, tmp_path: Path, by: str) -> None:
    source = animals_file.rename(animals_file.with_name("labeled.json"))
    before = source.read_bytes()
    given = {"file": source, "folder": source.parent, "link": tmp_path / "link.json"}[by]
    if by == "link":
        given.symlink_to(source)
    with pytest.raises(InputError, match=r"labeled\.json: is what is divided\. Name another folder with --out\."):
        divide(given, source.parent, overwrite=True, options=Options(images=source.parent))
    assert source.read_bytes() == before
    assert sorted(path.name for path in source.parent.iterdir()) == ["images", "labeled.json"]


@pytest.mark.parametrize(("changes", "words"), [({"label_fraction": 0}, "has to stay labelled"), ({}, "is a file")])
def test_what_cannot_be_divided(animals_file: Path, tmp_path: Path, changes: dict[str, float], words: str) -> None:
    out = tmp_path / "parts" if changes else animals_file
    with pytest.raises(InputError, match=words):
        divide(animals_file, out, **changes)

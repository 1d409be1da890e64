"""From the paths of a configuration to one pool: roles, images in two roles, and what a folder adds."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from placl.config import Data, Source
from placl.data.load import Dataset, default_cache, load_dataset, read_instances, views_differ
from placl.data.synthetic import write_animals
from placl.errors import InputError


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train/, val/ and more/, each with images/ and annotations.json of 4, 3 and 2 animals."""
    folder = tmp_path_factory.mktemp("animals")
    for seed, (name, count) in enumerate({"train": 4, "val": 3, "more": 2}.items()):
        write_animals(folder / name, count, seed, size=48)
    return folder


def read(tmp_path: Path, **settings: object) -> Dataset:
    return load_dataset(Data(cache=tmp_path / "cache", **settings), 32)


def annotations(folder: Path, name: str) -> Path:
    return folder / name / "annotations.json"


def changed(file: Path, to: Path, **content: object) -> Path:
    """A copy of an annotation file, beside its images, with other content."""
    record = json.loads(file.read_text())
    to.write_text(json.dumps({**record, **content}))
    return to


def test_every_file_gives_its_instances_their_role(drawn: Path, tmp_path: Path) -> None:
    dataset = read(
        tmp_path,
        labeled=[annotations(drawn, "train")],
        val=[annotations(drawn, "val")],
        unlabeled=[drawn / "more" / "images"],
    )
    assert dataset.source.tolist() == ["labelled"] * 4 + ["val"] * 3 + ["unlabelled"] * 2
    assert dataset.pool.labelled.tolist() == [True] * 7 + [False] * 2
    assert dataset.pool.view == 32
    assert dataset.notes == ()


def test_images_without_annotation_are_unlabelled_images(drawn: Path, tmp_path: Path) -> None:
    more = json.loads(annotations(drawn, "more").read_text())
    file = changed(annotations(drawn, "more"), drawn / "more" / "half.json", annotations=more["annotations"][:1])
    dataset = read(tmp_path, labeled=[annotations(drawn, "train")], unlabeled=[file])
    first, second = (image["file_name"] for image in more["images"])
    hidden = [id_ for id_, role in zip(dataset.pool.ids, dataset.source, strict=True) if role == "unlabelled"]
    assert hidden == [f"{first}#1@2", second]
    assert dataset.notes == ("half.json: 1 images have no annotation; they are taken whole.",)


@pytest.mark.parametrize("without", [{"annotations": []}, {"annotations": None}])
def test_a_json_of_images_alone_is_unlabelled_images(drawn: Path, tmp_path: Path, without: dict[str, object]) -> None:
    content = {**json.loads(annotations(drawn, "more").read_text()), **without}
    file = drawn / "more" / "bare.json"
    file.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))
    dataset = read(tmp_path, labeled=[annotations(drawn, "train")], unlabeled=[file])
    assert (dataset.source == "unlabelled").sum() == 2
    assert dataset.notes == ()


def test_a_half_labelled_json_is_labelled_and_unlabelled(drawn: Path, tmp_path: Path) -> None:
    train = json.loads(annotations(drawn, "train").read_text())
    file = changed(annotations(drawn, "train"), drawn / "train" / "half.json", annotations=train["annotations"][:3])
    dataset = read(tmp_path, labeled=[file], unlabeled=[file])
    assert dataset.source.tolist() == ["labelled"] * 3 + ["unlabelled"]
    assert dataset.pool.ids[-1] == train["images"][3]["file_name"]


def test_the_labels_of_an_unlabelled_json_are_not_read(drawn: Path, tmp_path: Path) -> None:
    dataset = read(tmp_path, labeled=[annotations(drawn, "train")], unlabeled=[annotations(drawn, "more")])
    hidden = dataset.source == "unlabelled"
    assert hidden.sum() == 2
    assert not dataset.pool.visibility[hidden].any()
    assert not dataset.pool.keypoints[hidden].any()


def test_a_labelled_files_instance_without_keypoints_is_unlabelled(drawn: Path, tmp_path: Path) -> None:
    record = json.loads(annotations(drawn, "train").read_text())
    record["annotations"][1]["keypoints"] = []
    file = changed(annotations(drawn, "train"), drawn / "train" / "one_bare.json", **record)
    assert read(tmp_path, labeled=[file]).source.tolist() == ["labelled", "unlabelled", "labelled", "labelled"]


def test_images_that_other_files_name_are_left_out_of_a_folder(drawn: Path, tmp_path: Path) -> None:
    dataset = read(
        tmp_path,
        labeled=[annotations(drawn, "train")],
        unlabeled=[drawn / "train" / "images", drawn / "more" / "images"],
    )
    assert Counter(dataset.source.tolist()) == {"labelled": 4, "unlabelled": 2}
    assert dataset.notes == (
        f"{drawn / 'train' / 'images'}: 4 instances are of images that other files name; left out.",
    )


def test_an_image_in_two_unlabelled_folders_counts_once(drawn: Path, tmp_path: Path) -> None:
    # Twice, it could be in both halves, and cross-training would predict what it trained on.
    folder = drawn / "more" / "images"
    dataset = read(tmp_path, labeled=[annotations(drawn, "train")], unlabeled=[folder, folder / "000000.jpg"])
    assert Counter(dataset.source.tolist()) == {"labelled": 4, "unlabelled": 2}


def test_an_image_has_one_role(drawn: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"000000\.jpg: is a labelled image and a val image\. An image has one role"):
        read(tmp_path, labeled=[annotations(drawn, "train")], val=[annotations(drawn, "train")])


def test_an_image_has_one_role_under_any_of_its_names(drawn: Path, tmp_path: Path) -> None:
    (tmp_path / "images").symlink_to(drawn / "train" / "images")
    shutil.copy(annotations(drawn, "train"), tmp_path)
    with pytest.raises(InputError, match="is a labelled image and a test image"):
        read(tmp_path, labeled=[annotations(drawn, "train")], test=[tmp_path / "annotations.json"])


def test_no_label_at_all(drawn: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no labels: name a labelled source with --labeled"):
        read(tmp_path, unlabeled=[drawn / "more" / "images"])
    record = json.loads(annotations(drawn, "train").read_text())
    for annotation in record["annotations"]:
        annotation["keypoints"] = []
    file = changed(annotations(drawn, "train"), drawn / "train" / "bare.json", **record)
    with pytest.raises(InputError, match=r"bare\.json: no labelled instance"):
        read(tmp_path, labeled=[file])


def test_no_file_that_names_keypoints(drawn: Path, tmp_path: Path) -> None:
    record = json.loads(annotations(drawn, "train").read_text())
    for annotation in record["annotations"]:
        del annotation["keypoints"]
    file = changed(
        annotations(drawn, "train"),
        drawn / "train" / "boxes.json",
        **{**record, "categories": [{"id": 1, "name": "cat"}]},
    )
    with pytest.raises(InputError, match=r"boxes\.json: no annotation has keypoints\."):
        read(tmp_path, labeled=[file])


def test_an_unreadable_unlabelled_image_is_skipped_and_named(drawn: Path, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    shutil.copytree(drawn / "more" / "images", folder)
    (folder / "broken.jpg").write_bytes(b"no picture")
    dataset = read(tmp_path, labeled=[annotations(drawn, "train")], unlabeled=[folder])
    assert Counter(dataset.source.tolist()) == {"labelled": 4, "unlabelled": 2}
    assert len(dataset.source) == len(dataset.pool)
    (note,) = dataset.skipped
    assert not dataset.notes
    assert note.startswith(f"{folder / 'broken.jpg'}: ")


def test_two_files_of_one_name_keep_their_roles(drawn: Path, tmp_path: Path) -> None:
    # All three sets call their images 000000.jpg and so on; ids are made unique, roles follow them.
    dataset = read(tmp_path, labeled=[annotations(drawn, "train")], val=[annotations(drawn, "val")])
    assert len(set(dataset.pool.ids)) == 7
    alone = read(tmp_path, labeled=[annotations(drawn, "val")])
    np.testing.assert_array_equal(dataset.pool.keypoints[dataset.source == "val"], alone.pool.keypoints)


def test_the_cache_is_where_the_user_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLACL_CACHE", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "xdg")
    assert default_cache() == Path("xdg/placl")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache() == Path.home() / ".cache" / "placl"
    monkeypatch.setenv("PLACL_CACHE", "mine")
    assert default_cache() == Path("mine")


# --- one image, one role, whatever it is called


@pytest.mark.parametrize("copy", [os.link, shutil.copy])
def test_a_link_or_copy_of_an_image_has_its_role(
    drawn: Path, tmp_path: Path, copy: Callable[[Path, Path], object]
) -> None:
    other = tmp_path / "other"
    (other / "images").mkdir(parents=True)
    for image in (drawn / "train" / "images").iterdir():
        copy(image, other / "images" / f"renamed_{image.name}")
    content = json.loads(annotations(drawn, "train").read_text())
    for image in content["images"]:
        image["file_name"] = image["file_name"].replace("images/", "images/renamed_")
    (other / "annotations.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="is a labelled image and a test image"):
        read(tmp_path, labeled=[annotations(drawn, "train")], test=[other / "annotations.json"])
    dataset = read(tmp_path, labeled=[annotations(drawn, "train")], unlabeled=[other / "images"])
    assert Counter(dataset.source.tolist()) == {"labelled": 4}
    # Twice among the labelled, it is one image with two instances, which no split tears apart.
    both = read(tmp_path, labeled=[annotations(drawn, "train"), other / "annotations.json"])
    assert len(both.pool) == 8
    assert len(set(both.pool.image.tolist())) == 4


def with_splits(drawn: Path, *splits: str) -> Path:
    content = json.loads(annotations(drawn, "train").read_text())
    for image, split in zip(content["images"], splits, strict=True):
        image["split"] = split
    return changed(annotations(drawn, "train"), drawn / "train" / "with_splits.json", **content)


def test_splits_of_a_source_hold_unless_one_is_chosen(drawn: Path, tmp_path: Path) -> None:
    file = with_splits(drawn, "train", "val", "test", "")
    dataset = read(tmp_path, labeled=[file])
    assert sorted(dataset.source.tolist()) == ["labelled", "labelled", "test", "val"]
    assert any("has splits of its own, which hold here: 2 labelled, 1 val, 1 test" in note for note in dataset.notes)
    assert read(tmp_path, labeled=[Source(path=file, split="test")]).source.tolist() == ["labelled"]
    # Who names validation or test files has divided the data: all of the labelled file trains.
    named = read(tmp_path, labeled=[file], val=[annotations(drawn, "val")])
    assert Counter(named.source.tolist()) == {"labelled": 4, "val": 3}


def test_a_choice_that_leaves_nothing_is_refused(drawn: Path, tmp_path: Path) -> None:
    file = with_splits(drawn, "train", "train", "train", "val")
    with pytest.raises(InputError, match=r'has no split "dev"\. Known here: train, val\.'):
        read(tmp_path, labeled=[Source(path=file, split="dev")])
    content = json.loads(file.read_text())
    content["categories"].append({**content["categories"][0], "id": 2, "name": "bear"})
    content["annotations"][0]["category_id"] = 2
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match="no instance is of the split and of the classes"):
        read(tmp_path, labeled=[annotations(drawn, "more")], val=[Source(path=file, split="val", classes=("bear",))])


@pytest.mark.parametrize(
    "spelled", [Path, lambda path: Source(path=path), lambda path: Source(path=path, format="coco")]
)
def test_boxes_around_keypoints_are_not_used_where_labels_are_not(
    drawn: Path, tmp_path: Path, spelled: Callable[[Path], Path | Source]
) -> None:
    content = json.loads(annotations(drawn, "more").read_text())
    content["annotations"][0]["bbox_drawn"] = True
    del content["annotations"][1]["bbox"]
    file = changed(annotations(drawn, "more"), drawn / "more" / "drawn.json", **content)
    dataset = read(tmp_path, labeled=[annotations(drawn, "train")], unlabeled=[spelled(file)])
    hidden = dataset.pool.take(dataset.source == "unlabelled")
    assert hidden.to_image[:, 0].tolist() == pytest.approx([1.25 * 48 / 32] * 2)  # whole images of 48 px


def test_a_folder_of_images_is_all_its_images_whatever_else_is_in_it(drawn: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    shutil.copytree(drawn / "more", folder)
    shutil.copy(drawn / "val" / "images" / "000000.jpg", folder / "images" / "unlisted.jpg")
    dataset = read(tmp_path, labeled=[annotations(drawn, "train")], unlabeled=[folder])
    assert (dataset.source == "unlabelled").sum() == 3


def test_boxes_beside_whole_images_are_worth_a_word(drawn: Path, tmp_path: Path) -> None:
    labelled = {"labeled": [annotations(drawn, "train")]}
    (doubt,) = read(tmp_path, **labelled, unlabeled=[drawn / "more" / "images"]).doubts
    assert doubt.startswith("labelled instances have boxes and unlabelled images are taken whole")
    assert read(tmp_path, **labelled, unlabeled=[annotations(drawn, "more")]).doubts == ()
    assert read(tmp_path, **labelled).doubts == ()
    instances, role_of, _ = read_instances(Data(**labelled, unlabeled=[drawn / "more" / "images"]))
    assert len(views_differ(instances, role_of)) == 1
    all_whole = replace(instances, boxes=np.full_like(instances.boxes, np.nan))
    assert views_differ(all_whole, role_of) == ()

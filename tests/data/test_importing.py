"""Importing: where images and labels end up, what is left alone, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from films import film_frame, write_film
from pictures import picture, save
from placl import config as configuration
from placl.data.formats.coco import read_coco
from placl.data.formats.coco_writing import write_coco
from placl.data.formats.format import Options
from placl.data.formats.registry import read_source
from placl.data.importing import default_folder, import_source
from placl.data.load import load_dataset
from placl.data.synthetic import write_animals
from placl.errors import InputError


@pytest.fixture
def animals_file(tmp_path: Path) -> Path:
    return write_animals(tmp_path / "animals", 4, seed=3, size=48)


def tree(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_coco_json_beside_the_images(animals_file: Path, tmp_path: Path) -> None:
    before = {name: (tmp_path / "animals" / name).stat().st_mtime_ns for name in tree(tmp_path / "animals")}
    done = import_source(animals_file.parent, tmp_path / "mine")
    assert tree(tmp_path / "mine") == ["annotations.json", *(f"images/{i:06d}.jpg" for i in range(4))]
    first, again = read_coco(animals_file), read_coco(tmp_path / "mine" / "annotations.json")
    np.testing.assert_array_equal(first.keypoints, again.keypoints)
    np.testing.assert_array_equal(first.boxes, again.boxes)
    assert done.format == "coco"
    assert all(image.is_relative_to(tmp_path / "mine") for image in again.images)
    assert {name: (tmp_path / "animals" / name).stat().st_mtime_ns for name in tree(tmp_path / "animals")} == before


def test_images_are_copied_where_links_are_not_possible(
    animals_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    import_source(animals_file, tmp_path / "mine")
    one, other = tmp_path / "animals" / "images" / "000000.jpg", tmp_path / "mine" / "images" / "000000.jpg"
    assert not other.samefile(one)
    assert other.read_bytes() == one.read_bytes()


def test_folders_with_the_same_names_stay_apart(tmp_path: Path) -> None:
    for part in ("a", "b"):
        (tmp_path / "photos" / part).mkdir(parents=True)
        save(tmp_path / "photos" / part / "1.png", picture(seed=ord(part)))
    import_source(tmp_path / "photos", tmp_path / "mine")
    assert tree(tmp_path / "mine") == ["annotations.json", "images/a/1.png", "images/b/1.png"]


def test_the_folder_has_the_sources_name_unless_it_is_the_source(
    animals_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / "animals" / "images")
    assert default_folder(animals_file) == Path("annotations")
    monkeypatch.chdir(tmp_path)
    assert default_folder(animals_file.parent) == Path("animals_placl")


def test_what_is_there_is_not_overwritten(animals_file: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "annotations.json").write_text("precious")
    with pytest.raises(
        InputError, match=r"mine: is there already\. Name another folder with --out, or pass --overwrite"
    ):
        import_source(animals_file, tmp_path / "mine")
    assert (tmp_path / "mine" / "annotations.json").read_text() == "precious"
    import_source(animals_file, tmp_path / "mine", overwrite=True)
    assert len(json.loads((tmp_path / "mine" / "annotations.json").read_text())["annotations"]) == 4


@pytest.mark.parametrize("to", ["mpii", "images"])
def test_what_cannot_be_written(animals_file: Path, tmp_path: Path, to: str) -> None:
    with pytest.raises(InputError, match=f"format {to} can be read and not written"):
        import_source(animals_file, tmp_path / "mine", to=to)


@pytest.mark.parametrize("to", ["deeplabcut", "sleap", "yolo", "csv"])
def test_other_tools_files_read_back(animals_file: Path, tmp_path: Path, to: str) -> None:
    import_source(animals_file, tmp_path / "theirs", to=to)
    back = import_source(tmp_path / "theirs", tmp_path / "ours").instances
    first = read_coco(animals_file)
    order = np.argsort([image.name for image in back.images])[np.argsort(np.argsort([i.name for i in first.images]))]
    rows = [int(np.flatnonzero(back.image_index == i)[0]) for i in order]
    seen = first.visibility > 0
    np.testing.assert_allclose(back.keypoints[rows][seen], first.keypoints[seen], atol=1e-3)


def test_a_training_takes_an_imported_protocol(cub_folder: Path, tmp_path: Path) -> None:
    done = import_source(cub_folder, tmp_path / "mine", protocol="cub")
    assert any("the paper has 5,864" in note for note in done.notes)
    config = configuration.load(
        None, {"data": str(tmp_path / "mine" / "placl.yaml"), "data.cache": str(tmp_path / "c")}
    )
    dataset = load_dataset(config.data, 32)
    assert [int((dataset.source == role).sum()) for role in ("labelled", "val", "test")] == [2, 1, 1]


def test_a_protocols_metric_is_told(cub_folder: Path, tmp_path: Path) -> None:
    done = import_source(cub_folder, tmp_path / "mine", protocol="cub")
    assert done.notes[-1] == "cub is scored by reward.metric=pck reward.alpha=0.1: add it to placl train."
    lines = (tmp_path / "mine" / "placl.yaml").read_text().splitlines()
    assert lines[0] == "# the paper's splits of CUB-200-2011, scored by: reward.metric=pck reward.alpha=0.1"


# --- the source is left alone


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in tree(folder)}


@pytest.mark.parametrize(
    ("source", "out"),
    [
        *(("animals", out) for out in ("animals", "animals/../animals", ".", "animals/images")),
        *(("animals/annotations.json", out) for out in ("animals", ".")),
    ],
)
def test_nothing_is_written_over_the_source(animals_file: Path, tmp_path: Path, source: str, out: str) -> None:
    before = content(tmp_path)
    with pytest.raises(InputError, match=r"is the source, or .*\. Name another folder with --out\."):
        import_source(tmp_path / source, tmp_path / out, overwrite=True)
    assert content(tmp_path) == before


def test_a_link_to_the_source_is_the_source(animals_file: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(animals_file.parent)
    with pytest.raises(InputError, match="is the source"):
        import_source(animals_file.parent, tmp_path / "link", overwrite=True)


def test_annotations_that_lie_in_the_target_are_not_overwritten(animals_file: Path, tmp_path: Path) -> None:
    instances = read_coco(animals_file)
    (tmp_path / "source").mkdir()
    (tmp_path / "mine").mkdir()
    (file,) = write_coco(instances, tmp_path / "mine" / "annotations.json")
    (tmp_path / "source" / "labels.json").symlink_to(file)
    before = file.read_bytes()
    with pytest.raises(InputError, match=r"labels\.json.* lies in .*mine, which would be overwritten\. Name another"):
        import_source(tmp_path / "source", tmp_path / "mine", overwrite=True, options=Options(images=tmp_path / "mine"))
    assert file.read_bytes() == before


def test_a_new_folder_inside_the_source_does_no_harm(animals_file: Path, tmp_path: Path) -> None:
    before = content(animals_file.parent)
    import_source(animals_file.parent, animals_file.parent / "mine")
    assert before.items() <= content(animals_file.parent).items()


def test_the_folder_to_write_is_a_file(animals_file: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(InputError, match=r"mine: is a file\. Name a folder with --out\."):
        import_source(animals_file, tmp_path / "mine", overwrite=True)


def test_an_unreadable_unlabelled_image_is_left_out_and_a_labelled_one_refused(
    animals_file: Path, tmp_path: Path
) -> None:
    shutil.copytree(animals_file.parent / "images", tmp_path / "photos")
    (tmp_path / "photos" / "broken.jpg").write_bytes(b"no picture")
    done = import_source(tmp_path / "photos", tmp_path / "mine")
    assert len(done.instances) == 4
    assert any("1 images cannot be read and are left out" in note and "broken.jpg" in note for note in done.notes)
    (animals_file.parent / "images" / "000001.jpg").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"animals/images/000001\.jpg: cannot be read as an image"):
        import_source(animals_file, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_deeplabcut_project_has_its_images_beside_their_tables(animals_file: Path, tmp_path: Path) -> None:
    done = import_source(animals_file, tmp_path / "theirs", to="deeplabcut")
    names = [*(f"{i:06d}.jpg" for i in range(4)), "CollectedData_placl.csv"]
    assert tree(tmp_path / "theirs") == ["config.yaml", *(f"labeled-data/images/{name}" for name in names)]
    assert done.files[0] == tmp_path / "theirs" / "config.yaml"
    known, found = read_source(tmp_path / "theirs")
    first = read_coco(animals_file)
    assert known.name == "deeplabcut"
    assert found.instances.skeleton is not None
    assert first.skeleton is not None
    assert found.instances.skeleton.edges == first.skeleton.edges  # config.yaml carries them
    np.testing.assert_array_equal(found.instances.keypoints, first.keypoints)


def coco_of(file: Path, *names: str, keypoints: tuple[str, ...] = ("nose", "tail")) -> Path:
    """A json with one instance on each image, which are drawn beside it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(names):
        (file.parent / name).parent.mkdir(parents=True, exist_ok=True)
        save(file.parent / name, picture(seed=seed))
    images = [{"id": i, "file_name": name} for i, name in enumerate(names)]
    labels = [
        {"id": i, "image_id": i, "category_id": 1, "bbox": [1, 1, 30, 30], "keypoints": [i, 5, 2, 9, 9, 2]}
        for i in range(len(names))
    ]
    categories = [{"id": 1, "name": "animal", "keypoints": list(keypoints)}]
    file.write_text(json.dumps({"images": images, "annotations": labels, "categories": categories}))
    return file


def test_folders_that_flatten_to_one_name_are_numbered(tmp_path: Path) -> None:
    file = coco_of(tmp_path / "set" / "ann.json", "a/b/1.png", "a_b/1.png", "A_B/2.png", "3.png")
    import_source(file, tmp_path / "theirs", to="deeplabcut")
    names = ["A_B_3/2.png", "a_b/1.png", "a_b_2/1.png", "set/3.png"]
    assert [name for name in tree(tmp_path / "theirs" / "labeled-data") if name.endswith("png")] == names
    found = read_source(tmp_path / "theirs")[1].instances
    x_of = {image.parent.name: found.keypoints[i, 0, 0] for i, image in enumerate(found.images)}
    assert x_of == {"a_b": 0, "a_b_2": 1, "A_B_3": 2, "set": 3}


def test_a_refused_import_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    file = coco_of(tmp_path / "set" / "ann.json", "1.png")
    content = json.loads(file.read_text())
    content["annotations"] *= 2
    content["annotations"][1] = content["annotations"][0] | {"id": 7}
    file.write_text(json.dumps(content))
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "new", tmp_path / "empty"):
        with pytest.raises(InputError):
            import_source(file, out, to="lightning_pose")  # which has one animal to an image
    assert not (tmp_path / "new").exists()
    assert tree(tmp_path / "empty") == []
    assert tree(tmp_path / "set") == ["1.png", "ann.json"]
    import_source(file, tmp_path / "new")


def test_a_refused_import_leaves_what_was_there(tmp_path: Path) -> None:
    file = coco_of(tmp_path / "set" / "ann.json", "1.png")
    import_source(file, tmp_path / "mine")
    before = content(tmp_path / "mine")
    (tmp_path / "set" / "1.png").unlink()
    with pytest.raises(InputError, match="does not exist"):
        import_source(file, tmp_path / "mine", overwrite=True)
    assert content(tmp_path / "mine") == before


def test_a_deeplabcut_project_that_is_overwritten_has_what_is_new_alone(tmp_path: Path) -> None:
    first = coco_of(tmp_path / "a" / "ann.json", "x/1.png", "x/2.png", "y/3.png")
    second = coco_of(tmp_path / "b" / "ann.json", "x/2.png", "z/9.png", keypoints=("beak", "crest"))
    out = tmp_path / "out"
    import_source(first, out, to="deeplabcut")
    for folder in ("x", "y"):
        (out / "labeled-data" / folder / "CollectedData_placl.h5").touch()  # as DeepLabCut's convertcsv2h5 does
    save(out / "labeled-data" / "y" / "own.png")
    import_source(second, out, to="deeplabcut", overwrite=True)
    names = ["x/2.png", "x/CollectedData_placl.csv", "y/own.png", "z/9.png", "z/CollectedData_placl.csv"]
    assert tree(out / "labeled-data") == names
    found = read_source(out)[1].instances
    assert found.skeleton is not None
    assert found.skeleton.keypoints == ("beak", "crest")
    assert [found.ids[i] for i in np.flatnonzero(found.labelled)] == ["labeled-data/x/2.png", "labeled-data/z/9.png"]
    assert tree(tmp_path / "a") == ["ann.json", "x/1.png", "x/2.png", "y/3.png"]


def test_copies_of_an_earlier_import_are_not_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    import_source(coco_of(tmp_path / "a" / "ann.json", "x/1.png"), tmp_path / "out", to="deeplabcut")
    second = coco_of(tmp_path / "b" / "ann.json", "y/1.png", "z/1.png")
    import_source(second, tmp_path / "out", to="deeplabcut", overwrite=True)
    tables = [f"{name}/CollectedData_placl.csv" for name in ("y", "z")]
    expected = sorted(["x/1.png", "y/1.png", "z/1.png", *tables])
    assert tree(tmp_path / "out" / "labeled-data") == expected


@pytest.mark.parametrize("to", ["coco", "deeplabcut", "sleap", "yolo"])
def test_images_may_lie_on_two_drives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str) -> None:
    file = coco_of(tmp_path / "set" / "ann.json", "a/1.png", "b/1.png")

    def apart(*_: object) -> str:
        raise ValueError("Paths don't have the same drive")

    monkeypatch.setattr(os.path, "commonpath", apart)
    import_source(file, tmp_path / "out", to=to)
    found = read_source(tmp_path / "out")[1].instances
    assert sorted(found.keypoints[:, 0, 0].tolist()) == [0, 1]
    assert len(set(found.images)) == 2


@pytest.mark.parametrize("to", ["deeplabcut", "sleap", "yolo", "coco"])
def test_a_video_becomes_a_project_to_label(tmp_path: Path, to: str) -> None:
    film = write_film(tmp_path / "a.avi", [film_frame((40 + 20 * i, 90)) for i in range(6)])
    options = Options(keypoints=("nose", "tail"), count=3)
    import_source(film, tmp_path / "out", to=to, options=options)
    found = read_source(tmp_path / "out")[1].instances
    assert found.skeleton is not None
    assert found.skeleton.keypoints == ("nose", "tail")
    assert len(found.images) == 3
    assert not found.labelled.any()

"""Recognising what a path holds: folders of several files, names, and what nobody knows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pictures import save
from placl.data.formats.format import Options
from placl.data.formats.registry import FORMATS, WITHOUT_LABELS, format_named, read_source
from placl.data.skeleton import Skeleton
from placl.data.synthetic import write_animals
from placl.errors import InputError


def change(file: Path, to: Path, **content: Any) -> Path:
    to.write_text(json.dumps({**json.loads(file.read_text()), **content}))
    return to


def test_a_coco_file_a_folder_and_a_picture(tmp_path: Path) -> None:
    file = write_animals(tmp_path, 2, seed=1, size=48)
    assert read_source(file)[0].name == "coco"
    assert read_source(tmp_path)[0].name == "coco"
    assert read_source(tmp_path / "images")[0].name == "images"
    assert read_source(tmp_path / "images" / "000000.jpg")[0].name == "images"


def test_files_of_one_kind_are_joined(tmp_path: Path) -> None:
    file = write_animals(tmp_path, 4, seed=1, size=48)
    content = json.loads(file.read_text())
    for name, part in (("train", slice(0, 3)), ("val", slice(3, 4))):
        change(
            file, tmp_path / f"{name}.json", annotations=content["annotations"][part], images=content["images"][part]
        )
    file.unlink()
    _, found = read_source(tmp_path)
    assert len(found.instances) == 4
    assert found.notes == ()


def test_files_that_repeat_or_differ_are_left_out_and_named(tmp_path: Path) -> None:
    file = write_animals(tmp_path, 2, seed=1, size=48)
    shutil.copy(file, tmp_path / "copy.json")
    (tmp_path / "damaged.json").write_text('{"images": [], "annotations": [{}]}')
    _, found = read_source(tmp_path)
    assert len(found.instances) == 2
    assert [note.partition(":")[0] for note in found.notes] == ["damaged.json", "copy.json"]
    assert "it cannot be read" in found.notes[0]
    assert "it has instances of the files before" in found.notes[1]


def test_a_folder_whose_only_file_is_damaged_says_why(tmp_path: Path) -> None:
    (tmp_path / "damaged.json").write_text('{"images": [], "annotations": [{}]}')
    with pytest.raises(InputError, match=r'damaged\.json: "categories" is missing\.'):
        read_source(tmp_path)


DAMAGED = {
    "cut.json": (b'{"images": [', r"cut\.json: is not JSON"),
    "empty.json": (b"", r"empty\.json: is not JSON"),
    "annotations.json": (b'{"annotations": {}}', r'annotations\.json: "images" is missing'),
    "joints.mat": (b"MATLAB 5.0", r"joints\.mat: is not a MATLAB file that can be read"),
    "mpii_human_pose_v1.mat": (b"MATLAB", r"mpii_human_pose_v1\.mat: is not a MATLAB file that can be read"),
    "data.yaml": (b"train: [images", r"data\.yaml: is not YAML"),
    "CollectedData.csv": (b"scorer,A,A\nbodyparts,s,s\nimg.png,1,2\n", r"CollectedData\.csv: its first rows are not"),
    "labels.csv": (b"picture,foo\na.png,1\n", r"labels\.csv: "),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_label_file_does_not_make_a_folder_unlabelled(name: str, tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    content, words = DAMAGED[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        read_source(tmp_path)
    assert "\n" not in str(caught.value)
    hint = "To read the images alone, pass --format images, or name it --unlabeled in a training."
    assert str(caught.value).endswith(hint) or name.startswith("mpii")
    with pytest.raises(InputError, match=words):
        read_source(tmp_path / name)
    assert len(read_source(tmp_path, "images")[1].instances) == 1


@pytest.mark.parametrize("name", [None, "images"])
def test_plain_images_take_on_keypoints_that_a_person_names(name: str | None, tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    found = read_source(tmp_path, name, Options(keypoints=("left_eye", "right_eye", "tail")))[1].instances
    assert found.skeleton == Skeleton(("left_eye", "right_eye", "tail"), (), ((0, 1),))
    assert found.visibility.tolist() == [[0, 0, 0]]
    with pytest.raises(InputError, match=r"--keypoints: .* Name each once\."):
        read_source(tmp_path, name, Options(keypoints=("eye", "eye")))


def test_a_damaged_file_beside_a_good_one_is_left_out_and_named(tmp_path: Path) -> None:
    write_animals(tmp_path, 2, seed=1, size=48)
    (tmp_path / "cut.json").write_text('{"images": [')
    _, found = read_source(tmp_path)
    assert len(found.instances) == 2
    assert len(found.notes) == 1
    assert found.notes[0].startswith("cut.json: left out, it cannot be read.")


def test_an_unlabelled_folder_may_hold_other_files_which_are_named(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    (tmp_path / "camera.json").write_text('{"focal": 3}')
    (tmp_path / "log.csv").write_text("time,temperature\n1,2\n")
    (tmp_path / "notes.md").write_text("hello")
    known, found = read_source(tmp_path)
    assert known.name == "images"
    assert found.notes == tuple(f"{n}: left out, it is of no known format." for n in ("camera.json", "log.csv"))


def test_a_dataset_of_birds_that_lacks_a_file_names_it(tmp_path: Path) -> None:
    (tmp_path / "images.txt").write_text("1 a.png\n")
    (tmp_path / "bounding_boxes.txt").write_text("1 0 0 5 5\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "parts.txt").write_text("1 back\n")
    with pytest.raises(InputError, match=r"part_locs\.txt: cannot be read \(No such file"):
        read_source(tmp_path)


def test_a_project_whose_configuration_is_damaged_says_so(tmp_path: Path) -> None:
    (tmp_path / "labeled-data" / "v").mkdir(parents=True)
    save(tmp_path / "labeled-data" / "v" / "a.png")
    table = "scorer,A,A\nbodyparts,s,s\ncoords,x,y\nlabeled-data/v/a.png,1,2\n"
    (tmp_path / "labeled-data" / "v" / "CollectedData_A.csv").write_text(table)
    (tmp_path / "config.yaml").write_text("Task: [t\n scorer: : A\n")
    with pytest.raises(InputError, match=r"config\.yaml: is not YAML"):
        read_source(tmp_path)


def test_a_list_of_files(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    save(tmp_path / "b.png")
    (tmp_path / "list.txt").write_text("b.png\n\na.png\nb.png\n")
    known, found = read_source(tmp_path / "list.txt")
    assert known.name == "list"
    assert [image.name for image in found.instances.images] == ["b.png", "a.png"]
    assert found.notes == ("list.txt: 1 images are named more than once.",)
    (tmp_path / "list.txt").write_text("a.png\nc.png\n")
    with pytest.raises(InputError, match=r'list\.txt: line 2: image "c\.png" does not exist'):
        read_source(tmp_path / "list.txt")


def test_what_nobody_knows(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("hello")
    with pytest.raises(InputError, match=r"notes\.md: is of no known format\. Known are "):
        read_source(tmp_path / "notes.md")
    (tmp_path / "cut.json").write_text('{"images": [')
    with pytest.raises(InputError, match=r"cut\.json: is not JSON"):
        read_source(tmp_path / "cut.json")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: holds neither images or videos nor annotations"):
        read_source(tmp_path / "empty")
    assert format_named("dlc").name == "deeplabcut"
    with pytest.raises(InputError, match="nowhere: does not exist"):
        read_source(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r'format "deeplabcat" is unknown\. Did you mean "deeplabcut"\?'):
        format_named("deeplabcat")


@pytest.mark.parametrize("name", FORMATS)
def test_no_format_claims_or_trips_over_what_is_not_its_own(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    odd = {
        "a.json": b"{",
        "b.json": b"[]",
        "c.csv": b"",
        "d.mat": b"MATLAB",
        "e.xml": b"<a>",
        "f.slp": b"",
        "g.h5": b"\x89",
    }
    for file, content in odd.items():
        (tmp_path / file).write_bytes(content)
    for path in (tmp_path / "nowhere", tmp_path / "empty", *(tmp_path / file for file in odd)):
        claimed = FORMATS[name].claims(path)
        assert not claimed or path.suffix in (".slp",), path


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("folder", "name", "images", "labelled"),
    [
        ("300w", "coco", 2, 2),
        ("animalpose", "animalpose", 40, 71),
        ("animalpose_mmpose", "coco", 2, 2),
        ("ap10k", "coco", 2, 2),
        ("atrw", "coco", 2, 2),
        ("coco", "coco", 4, 12),
        ("crowdpose", "coco", 2, 4),
        ("cub", "cub", 42, 42),
        ("dlc_openfield", "deeplabcut", 40, 40),
        ("freihand", "coco", 8, 8),
        ("lightning_pose", "lightning_pose", 93, 90),
        ("lsp", "lsp", 40, 40),
        ("lspet", "lspet", 40, 40),
        ("mpii", "mpii", 5, 5),
        ("sleap", "sleap", 1, 2),
        ("wflw", "coco", 2, 4),
    ],
)
def test_every_real_sample_is_recognised(
    shared: Path, folder: str, name: str, images: int, labelled: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACL_CACHE", str(tmp_path))
    known, found = read_source(shared / "formats" / folder)
    assert known.name == name
    assert (len(found.instances.images), int(found.instances.labelled.sum())) == (images, labelled)


def test_formats_with_labels_are_asked_first() -> None:
    last = list(FORMATS.values())[-len(WITHOUT_LABELS) :]
    assert {known.name for known in last} == {known.name for known in WITHOUT_LABELS}

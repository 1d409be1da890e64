"""Who is who, from one tool's files to another's."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from pictures import save
from placl.data.formats.deeplabcut import write_deeplabcut
from placl.data.formats.individuals import individuals_in
from placl.data.formats.registry import read_source
from placl.data.formats.sleap import write_sleap
from placl.data.instances import Instances
from placl.data.skeleton import Skeleton


def named(folder: Path, *images: tuple[str, ...]) -> Instances:
    """Instances whose ids have these ends, image by image; the first keypoint's x is their number."""
    index = [i for i, ends in enumerate(images) for _ in ends]
    ends = [end for ends in images for end in ends]
    n = len(ends)
    files = tuple(save(folder / f"{i}.png") for i in range(len(images)))
    points = np.zeros((n, 2, 2), np.float32)
    points[:, 0, 0], points[:, 1] = np.arange(n), 9
    return Instances(
        skeleton=Skeleton(("nose", "tail")),
        images=files,
        image_index=np.array(index),
        boxes=np.full((n, 4), np.nan),
        keypoints=points,
        visibility=np.full((n, 2), 2, np.uint8),
        area=np.full(n, np.nan, np.float32),
        ids=tuple(f"{files[i].name}{end}" for i, end in zip(index, ends, strict=True)),
    )


def columns(instances: Instances, out: Path) -> list[list[str]]:
    """The individuals of a DeepLabCut project, and what its table has of the first keypoint's x."""
    config, table = write_deeplabcut(instances, out)
    lines = [line.split(",") for line in table.read_text().splitlines()]
    content = yaml.safe_load(config.read_text())
    header = content.get("individuals", [])
    assert content["multianimalproject"] is bool(header)
    assert (lines[1][0] == "individuals") is bool(header)
    return [header, *(line[1::4] for line in lines[3 + bool(header) :])]


def test_tracks_in_changing_order_are_the_individuals(tmp_path: Path) -> None:
    found = named(tmp_path, ("#1:male", "#2:female"), ("#1:female", "#2:male"), ("#1:female",))
    assert columns(found, tmp_path / "dlc") == [["male", "female"], ["0.0", "1.0"], ["3.0", "2.0"], ["", "4.0"]]


@pytest.mark.parametrize("ends", [("#1", "#1", "#1"), ("#17", "#18", "#19"), ("#5-1", "#6-1", "#7-1"), ("", "", "")])
def test_one_animal_to_an_image_is_nobody_by_name(tmp_path: Path, ends: tuple[str, ...]) -> None:
    found = named(tmp_path, *((end,) for end in ends))
    assert individuals_in(found) == ["", "", ""]
    assert columns(found, tmp_path / "dlc") == [[], ["0.0"], ["1.0"], ["2.0"]]


def test_who_has_no_track_is_counted_beside_those_who_have(tmp_path: Path) -> None:
    found = named(tmp_path, ("#1", "#2:female"), ("#1:female", "#2"))
    assert columns(found, tmp_path / "dlc") == [["individual1", "female"], ["0.0", "1.0"], ["3.0", "2.0"]]


def test_animals_may_be_called_by_numbers(tmp_path: Path) -> None:
    found = named(tmp_path, ("#1", "#2"), ("#2",))
    assert columns(found, tmp_path / "dlc") == [["1", "2"], ["0.0", "1.0"], ["", "2.0"]]


def test_individuals_become_tracks_and_come_back(tmp_path: Path) -> None:
    found = named(tmp_path, ("#mus1", "#mus2"), ("#mus2",))
    write_sleap(found, tmp_path / "a.slp")
    there = read_source(tmp_path / "a.slp")[1].instances
    assert there.ids == ("0.png#1:mus1", "0.png#2:mus2", "1.png#1:mus2")
    assert columns(there, tmp_path / "dlc") == [["mus1", "mus2"], ["0.0", "1.0"], ["", "2.0"]]


def test_names_of_images_may_have_the_sign_that_ids_have(tmp_path: Path) -> None:
    found = named(tmp_path, ("#1:a#2",))
    image = save(tmp_path / "x#7.png")
    assert individuals_in(replace(found, images=(image,), ids=("x#7.png#1:a#2",))) == ["a#2"]
    assert individuals_in(replace(found, images=(image,), ids=("v/x#7.png",))) == [""]

"""Corrections find the instance that a person has seen, whatever its id is among other sources."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pictures import picture, save
from placl.data.correcting import read_corrections
from placl.data.correction_images import by_images
from placl.data.corrections import Correction, Corrections
from placl.data.formats.folder import read_folder
from placl.data.instances import Instances, join
from placl.data.skeleton import Skeleton
from placl.errors import InputError


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """A/ and B/ with different images 1.png and 2.png each."""
    for seed, name in enumerate(("A/1", "A/2", "B/1", "B/2")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        save(tmp_path / f"{name}.png", picture(seed=seed))
    return tmp_path


def read(*paths: Path) -> Instances:
    return join([read_folder(path) for path in paths])


def said(id_: str, image: Path, verdict: str = "accepted") -> dict[str, Correction]:
    return {id_: Correction(id_, verdict, ((1.0, 2.0),), (2,), str(image), None)}


def found(corrections: dict[str, Correction], *paths: Path) -> list[str]:
    """The images that corrections end up on."""
    instances = read(*paths)
    placed = by_images(corrections, instances)
    assert all(one.id == id_ for id_, one in placed.items())
    return [str(instances.images[instances.ids.index(id_)].relative_to(paths[0].parent)) for id_ in placed]


@pytest.mark.parametrize("verdict", ["accepted", "rejected"])
@pytest.mark.parametrize("order", ["AB", "BA", "B"])
def test_an_id_that_another_source_has_taken_leads_to_the_image_that_was_seen(
    folders: Path, order: str, verdict: str
) -> None:
    corrections = said("1.png", folders / "B" / "1.png", verdict)
    assert found(corrections, *(folders / name for name in order)) == ["B/1.png"]


def test_ids_of_two_sources_lead_back_to_one(folders: Path) -> None:
    assert found(said("1.png@2", folders / "B" / "1.png"), folders / "B") == ["B/1.png"]


def test_the_folder_above_gives_other_ids_and_the_same_images(folders: Path) -> None:
    instances = read_folder(folders)
    assert list(by_images(said("1.png", folders / "B" / "1.png"), instances)) == ["B/1.png"]


def test_files_of_two_runs_with_the_same_id_do_not_hide_each_other(folders: Path) -> None:
    skeleton = Skeleton(("nose",))
    files = [folders / "a.jsonl", folders / "b.jsonl"]
    for file, name in zip(files, "AB", strict=True):
        Corrections(file, skeleton).save(said("1.png", folders / name / "1.png")["1.png"])
    instances = read(folders / "A", folders / "B").with_skeleton(skeleton)
    assert list(read_corrections(files, instances)[0]) == ["1.png", "1.png@2"]


def test_an_image_that_is_not_in_the_data_gives_its_label_to_no_other(folders: Path) -> None:
    with pytest.raises(InputError, match=r'"1\.png" on .*B.1\.png, and here that is .*A.1\.png\. Name the data'):
        found(said("1.png", folders / "B" / "1.png"), folders / "A")


def test_what_the_data_lacks_keeps_its_id(folders: Path) -> None:
    assert list(by_images(said("z.png", folders / "B" / "1.png"), read(folders / "A"))) == ["z.png"]


@pytest.mark.parametrize("move", [shutil.copytree, shutil.move, os.symlink])
def test_a_dataset_may_be_moved(folders: Path, tmp_path: Path, move: Callable[..., object]) -> None:
    corrections = said("1.png", folders / "B" / "1.png")
    (folders / "new").mkdir()
    for name in "AB":
        move(folders / name, folders / "new" / name)
    new = folders / "new"
    assert found(corrections, new / "B") == ["B/1.png"]
    assert found(corrections, new / "A", new / "B") == ["B/1.png"]


def test_a_folder_may_get_another_name_where_only_one_has_the_id(folders: Path) -> None:
    corrections = said("1.png", folders / "B" / "1.png")
    (folders / "B").rename(folders / "C")
    assert found(corrections, folders / "C") == ["C/1.png"]
    with pytest.raises(InputError, match=r"B.1\.png, which is gone, and 2 images may be it"):
        found(corrections, folders / "A", folders / "C")


def test_of_two_animals_on_an_image_the_box_tells_which(folders: Path) -> None:
    image = folders / "B" / "1.png"
    instances = replace(
        read(folders / "B"),
        ids=("b.json#1", "b.json#2"),
        image_index=np.array([0, 0]),
        boxes=np.array([[1.0, 1, 5, 5], [9, 9, 8, 8]]),
    )
    one = replace(said("1.png#7", image)["1.png#7"], box=(9.2, 9.0, 8.0, 8.0))
    assert list(by_images({one.id: one}, instances)) == ["b.json#2"]
    with pytest.raises(InputError, match="and 0 instances there may be it"):
        by_images(said("1.png#7", image), instances)


def test_undecided_ones_are_left_alone(folders: Path) -> None:
    corrections = said("1.png", folders / "B" / "1.png", "open")
    assert by_images(corrections, read(folders / "A")) == corrections

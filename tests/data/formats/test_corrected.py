"""Corrections as a dataset: read as labels, and written in the formats of other tools."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from dots import DOTS, dot_picture
from placl.data.corrections import Correction, Corrections
from placl.data.formats.corrected import FORMAT, read_corrected
from placl.data.formats.format import Options
from placl.data.formats.registry import read_source, recognise
from placl.data.importing import import_source
from placl.errors import InputError

PLACES = np.array([[[10, 12], [20, 22.5], [30, 32]], [[40, 12], [50, 22], [60, 32.25]]])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two accepted instances of two images, one rejected and one that was only moved."""
    run = tmp_path / "run"
    run.mkdir()
    corrections = Corrections(run / "corrections.jsonl", DOTS)
    for n, name in enumerate(["a b.png", "ü.png"]):
        cv2.imwrite(str(tmp_path / name), dot_picture(np.zeros((0, 3, 2))))
        keypoints = tuple((x, y) for x, y in PLACES[n].tolist())
        one = Correction(f"{name}#7", "accepted", keypoints, (2, 1, 2), str(tmp_path / name), None)
        corrections.save(replace(one, box=(0.0, 0.0, 64.0, 64.0)) if n else one)
    corrections.save(replace(one, id="no", verdict="rejected"))
    corrections.save(replace(one, id="moved", verdict="open"))
    return corrections.path


def test_what_was_accepted_is_a_label(path: Path) -> None:
    assert recognise(path) is FORMAT
    found = read_corrected(path, Options())
    instances = found.instances
    assert instances.ids == ("a b.png#7", "ü.png#7")
    assert [image.name for image in instances.images] == ["a b.png", "ü.png"]
    assert np.array_equal(instances.keypoints, PLACES.astype(np.float32))
    assert instances.visibility.tolist() == [[2, 1, 2]] * 2
    assert np.isnan(instances.boxes[0]).all()
    assert instances.boxes[1].tolist() == [0, 0, 64, 64]
    assert found.notes == (f"{path}: 2 instances accepted, 1 rejected, 1 not decided and not used.",)


@pytest.mark.parametrize("to", ["coco", "deeplabcut", "sleap", "yolo", "csv"])
def test_other_tools_get_the_same_keypoints(path: Path, tmp_path: Path, to: str) -> None:
    done = import_source(path, tmp_path / "out", to=to)
    read = read_source(done.files[0] if to in ("coco", "csv", "sleap") else tmp_path / "out", to, Options())[
        1
    ].instances
    order = np.argsort([read.images[i].name for i in read.image_index])
    np.testing.assert_allclose(read.keypoints[order], PLACES, atol=1e-3)


def test_images_that_have_moved_are_found_by_their_names(path: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    for name in ("a b.png", "ü.png"):
        (tmp_path / name).rename(tmp_path / "elsewhere" / name)
    with pytest.raises(InputError, match=r'corrections.jsonl: image ".*a b.png" does not exist'):
        read_corrected(path, Options())
    found = read_corrected(path, Options(images=tmp_path / "elsewhere"))
    assert found.instances.images == (tmp_path / "elsewhere/a b.png", tmp_path / "elsewhere/ü.png")


def test_nothing_accepted_is_no_dataset(tmp_path: Path) -> None:
    corrections = Corrections(tmp_path / "c.jsonl", DOTS)
    corrections.save(Correction("a", "rejected", ((0.0, 0.0),) * 3, (2, 2, 2), "a.png", None))
    with pytest.raises(InputError, match=r"no instance is accepted \(0 instances accepted, 1 rejected\)"):
        read_corrected(tmp_path / "c.jsonl", Options())


def test_other_jsonl_files_are_not_claimed(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_text('{"kind": "run"}\n')
    assert not FORMAT.claims(tmp_path / "journal.jsonl")
    assert not FORMAT.claims(tmp_path / "missing.jsonl")

"""Pseudo-labels in files: written piece by piece, whole or not there, and sent to others as paths."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from placl.learn.pseudo_labels import PseudoLabels, labels_into, read_labels


def labels(count: int = 7, keypoints: int = 3) -> PseudoLabels:
    random = np.random.default_rng(0)
    places = random.random((count, keypoints, 2), np.float32)
    return PseudoLabels(places, random.random((count, keypoints), np.float32), "m")


def write(folder: Path, content: PseudoLabels, pieces: tuple[int, ...]) -> None:
    with labels_into(folder, *content.confidence.shape) as put:
        for some in reversed(np.split(np.arange(len(content.confidence)), pieces)):
            put(int(some[0]), content.keypoints[some], content.confidence[some])


@pytest.mark.parametrize("pieces", [(), (3,), (1, 2, 6)])
def test_what_is_written_in_pieces_is_read_as_one(tmp_path: Path, pieces: tuple[int, ...]) -> None:
    write(tmp_path / "labels", labels(), pieces)
    found = read_labels(tmp_path / "labels", "m", (7, 3))
    assert found is not None
    assert isinstance(found.keypoints, np.memmap)
    np.testing.assert_array_equal(found.keypoints, labels().keypoints)
    np.testing.assert_array_equal(found.confidence, labels().confidence)
    assert {file.name for file in (tmp_path / "labels").iterdir()} == {"keypoints.npy", "confidence.npy"}


def test_others_get_the_path(tmp_path: Path) -> None:
    write(tmp_path, labels(1000), ())
    found = read_labels(tmp_path, "m", (1000, 3))
    sent = pickle.dumps(found)
    assert len(sent) < 1000
    there = pickle.loads(sent)
    assert isinstance(there.confidence, np.memmap)
    np.testing.assert_array_equal(there.keypoints, labels(1000).keypoints)
    some = pickle.loads(pickle.dumps(there.take(np.array([5, 2]))))
    np.testing.assert_array_equal(some.confidence, labels(1000).confidence[[5, 2]])
    assert some.model == "m"


def test_labels_that_were_given_up_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="argument 3 is shorter"), labels_into(tmp_path, 7, 3) as put:
        put(0, labels().keypoints[:2])  # type: ignore[call-arg]
    assert list(tmp_path.iterdir()) == []
    assert read_labels(tmp_path, "m", (7, 3)) is None


def test_labels_of_another_pool_are_not_taken(tmp_path: Path) -> None:
    write(tmp_path, labels(), ())
    assert read_labels(tmp_path, "m", (8, 3)) is None
    assert read_labels(tmp_path, "m", (7, 4)) is None
    file = tmp_path / "keypoints.npy"
    file.write_bytes(file.read_bytes()[:-8])  # torn
    assert read_labels(tmp_path, "m", (7, 3)) is None

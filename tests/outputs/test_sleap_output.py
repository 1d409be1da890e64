"""Predictions as SLEAP files, read back with sleap-io and by our own reader."""

from pathlib import Path

import numpy as np
import pytest
import sleap_io

from films import HEIGHT, WIDTH, film_frame, write_film
from outcomes import of_images, of_video
from placl.data.formats.format import Options
from placl.data.formats.sleap import read_sleap
from placl.errors import InputError
from placl.outputs.predictions import Predictions


def check(frame: sleap_io.LabeledFrame, found: Predictions, rows: list[int]) -> None:
    assert len(frame.predicted_instances) == len(frame.instances) == len(rows)
    for instance, i in zip(frame.predicted_instances, rows, strict=True):
        np.testing.assert_allclose(instance.numpy(), found.keypoints[i])
        np.testing.assert_allclose(instance.points["score"], found.confidence[i], rtol=1e-6)
        assert instance.score == pytest.approx(found.scores[i])


def test_predicted_instances_on_the_frames_of_the_video(tmp_path: Path) -> None:
    video = write_film(tmp_path / "a 'film' é.avi", [film_frame((60 + i, 60)) for i in range(4)])
    found = of_video(video, [0, 2, 2])
    found.save(tmp_path / "p.slp")
    labels = sleap_io.load_slp(str(tmp_path / "p.slp"))
    assert [frame.frame_idx for frame in labels] == [0, 2]
    check(labels[0], found, [0])
    check(labels[1], found, [1, 2])
    assert labels.skeletons[0].node_names == list(found.skeleton.keypoints)
    assert [tuple(edge) for edge in labels.skeletons[0].edge_inds] == list(found.skeleton.edges)
    assert labels.videos[0].filename == video.as_posix()
    np.testing.assert_array_equal(labels[1].image, film_frame((62, 60)))  # the video is found and the frame is right
    assert film_frame(None).shape == (HEIGHT, WIDTH, 3)


def test_our_own_reader_takes_them_for_boxes(tmp_path: Path) -> None:
    video = write_film(tmp_path / "film.avi", [film_frame((60 + i, 60)) for i in range(4)])
    found = of_video(video, [1, 3])
    found.save(tmp_path / "p.slp")
    read = read_sleap(tmp_path / "p.slp", Options(frames=tmp_path / "frames"))
    assert [image.name for image in read.instances.images] == ["film_000001.png", "film_000003.png"]
    np.testing.assert_allclose(read.instances.boxes[:, :2], found.keypoints.min(axis=1), rtol=1e-6)
    assert not read.instances.labelled.any()


def test_images_are_a_sequence(tmp_path: Path) -> None:
    found = of_images(tmp_path, ["b.png", "a.png", "b.png"])
    found.save(tmp_path / "p.slp")
    labels = sleap_io.load_slp(str(tmp_path / "p.slp"))
    (sequence,) = labels.videos
    assert sequence.filename == [(tmp_path / name).as_posix() for name in ("b.png", "a.png")]
    check(labels[0], found, [0, 2])
    check(labels[1], found, [1])


def test_pictures_from_memory_have_no_file_to_name(tmp_path: Path) -> None:
    found = of_images(tmp_path, ["a.png"])
    (tmp_path / "a.png").unlink()
    with pytest.raises(InputError, match=r"p\.slp: a SLEAP file names image files, and .*a\.png is none"):
        found.save(tmp_path / "p.slp")

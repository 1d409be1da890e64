"""Predictions on videos against dots that move along known paths."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import placl
from films import HEIGHT, SHAPE, WIDTH, film_frame, read_film, write_film
from placl.data.formats import frames as frame_files
from placl.errors import InputError
from placl.model import Model
from placl.video import prediction
from placl.video.prediction import passages, predict_video
from placl.video.tracking import Tracking

PATH = [(40 + 4 * i, 60 + 30 * np.sin(i / 6)) for i in range(40)]
PLACES = np.array(PATH)[:, None] + SHAPE  # (40, 3, 2)


@pytest.fixture
def model(run: Path) -> Model:
    return Model.from_dir(run)


@pytest.fixture
def film(tmp_path: Path) -> Path:
    """40 frames of dots on a wave."""
    return write_film(tmp_path / "film.avi", map(film_frame, PATH))


def errors(keypoints: np.ndarray, places: np.ndarray = PLACES) -> np.ndarray:
    return np.linalg.norm(keypoints - places, axis=2)  # (N, 3) pixels


def write_boxes(path: Path, boxes: dict[int, list[list[float]]]) -> Path:
    images = [{"id": 100 + frame, "file_name": f"film_{frame:06d}.png"} for frame in boxes]
    annotations = [
        {"id": 10 * frame + i, "image_id": 100 + frame, "category_id": 3, "bbox": box}
        for frame, found in boxes.items()
        for i, box in enumerate(found)
    ]
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": []}))
    return path


def test_every_frame_in_order(model: Model, film: Path) -> None:
    found = placl.predict(model, film)
    assert errors(found.keypoints).max() < 4  # pixels that the network sees are as large as 4.7 of the frame
    assert found.clip is not None
    assert found.clip.frames.tolist() == list(range(40))
    assert (found.clip.length, found.clip.promised, found.clip.fps, found.clip.size) == (40, 40, 25.0, (WIDTH, HEIGHT))
    assert found.image_ids == tuple(range(40))
    assert found.names[12] == "film.avi#000012"
    assert found.boxes[7].tolist() == [0, 0, WIDTH, HEIGHT]
    assert found.skipped == ()


def test_the_same_as_its_frames_one_by_one(model: Model, film: Path) -> None:
    frames = np.stack(read_film(film))
    found = predict_video(model, film)
    for images in (frames, list(frames)):
        same = model(images)
        np.testing.assert_allclose(found.keypoints, same.keypoints, atol=1e-4)
        np.testing.assert_allclose(found.confidence, same.confidence, atol=1e-5)


def test_few_frames_are_in_memory(film: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [len(images) for images in passages(film, 16)] == [16, 16, 8]
    monkeypatch.setattr(prediction, "BYTES_AT_ONCE", 3 * WIDTH * HEIGHT * 3)
    assert [len(images) for images in passages(film, 16)] == [3] * 13 + [1]
    monkeypatch.setattr(prediction, "BYTES_AT_ONCE", 1)
    assert [len(images) for images in passages(film, 16)] == [1] * 40


def test_the_tracker_sees_better_than_the_whole_frame(model: Model, film: Path) -> None:
    everywhere, followed = placl.predict(model, film), placl.predict(model, film, track=True)
    assert errors(followed.keypoints)[10:].max() < 1
    assert errors(followed.keypoints)[10:].mean() < 0.5 * errors(everywhere.keypoints)[10:].mean()
    assert followed.boxes[0].tolist() == [0, 0, WIDTH, HEIGHT]
    centres = followed.boxes[10:, :2] + followed.boxes[10:, 2:] / 2
    before = (PLACES[9:-1].min(axis=1) + PLACES[9:-1].max(axis=1)) / 2 + 0.5  # where it was in the frame before
    assert np.abs(centres - before).max() < 1


def test_the_tracker_recovers(model: Model, tmp_path: Path) -> None:
    path = [(40, 60)] * 10 + [None] * 8 + [(200, 120)] * 12
    found = placl.predict(model, write_film(tmp_path / "film.avi", map(film_frame, path)), track=True)
    whole = (found.boxes == [0, 0, WIDTH, HEIGHT]).all(axis=1)
    assert np.flatnonzero(whole).tolist() == [0, 15, 16, 17, 18]  # at the start, and after 5 frames without it
    assert errors(found.keypoints[-5:], np.array([200, 120]) + SHAPE).max() < 1
    assert (found.confidence[10:18] < 0.1).all()


def test_the_tracker_starts_from_a_box_and_comes_back_to_one(model: Model, film: Path, tmp_path: Path) -> None:
    boxes = write_boxes(tmp_path / "b.json", {0: [[10, 30, 60, 60]], 20: [[90, 30, 70, 70]]})
    found = predict_video(model, film, boxes, tracking=Tracking())
    assert found.boxes[0].tolist() == [10, 30, 60, 60]
    assert found.boxes[20].tolist() == [90, 30, 70, 70]
    assert errors(found.keypoints).max() < 1
    assert found.image_ids == tuple(range(40))


def test_the_tracker_follows_one_animal(model: Model, film: Path, tmp_path: Path) -> None:
    boxes = write_boxes(tmp_path / "b.json", {3: [[0, 0, 9, 9], [5, 5, 9, 9]]})
    with pytest.raises(InputError, match=r"b\.json: frame 3 has 2 boxes\. --track follows one animal"):
        placl.predict(model, film, boxes, track=True)


def test_boxes_of_frames(model: Model, film: Path, tmp_path: Path) -> None:
    near = [[x - 30, y - 30, 60, 60] for x, y in PATH]
    boxes = write_boxes(tmp_path / "b.json", {5: [near[5]], 39: [near[39], [0, 0, WIDTH, HEIGHT]], 77: [near[5]]})
    found = placl.predict(model, film, boxes)
    assert found.clip is not None
    assert found.clip.frames.tolist() == [5, 39, 39]
    assert found.clip.length == 40
    assert found.image_ids == (105, 139, 139)
    assert found.category_ids == (3, 3, 3)
    assert errors(found.keypoints[:2], PLACES[[5, 39]]).max() < 1
    assert found.boxes[1].tolist() == pytest.approx(near[39])
    (note,) = found.skipped
    assert note == ("b.json: its boxes go up to frame 77, but film.avi ends with frame 39; those beyond are left out.")


def test_a_frame_without_a_box_of_its_own_is_looked_at_as_a_whole(model: Model, film: Path, tmp_path: Path) -> None:
    boxes = write_boxes(tmp_path / "b.json", {5: [[10, 10, 60, 60]]})
    content = json.loads(boxes.read_text())
    del content["annotations"][0]["bbox"]
    boxes.write_text(json.dumps(content))
    for track in (False, True):
        found = placl.predict(model, film, boxes, track=track)
        assert found.clip is not None
        assert found.boxes[found.clip.frames == 5].tolist() == [[0, 0, WIDTH, HEIGHT]]


def test_boxes_of_another_video(model: Model, film: Path, tmp_path: Path) -> None:
    boxes = write_boxes(tmp_path / "b.json", {77: [[0, 0, 9, 9]]})
    with pytest.raises(InputError, match=r"b\.json: none of its boxes is on one of the 40 frames, counted from 0"):
        placl.predict(model, film, boxes, overlay=tmp_path / "o.mp4")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["b.json", "film.avi", "run"]


def test_a_box_that_is_nowhere(model: Model, film: Path, tmp_path: Path) -> None:
    boxes = write_boxes(tmp_path / "b.json", {4: [[0, 0, 1e-9, 1e-9]]})
    with pytest.raises(InputError, match=r"frame 4: a box of .* is no part of an image"):
        placl.predict(model, film, boxes)


def test_progress_counts_frames(model: Model, film: Path) -> None:
    told: list[tuple[int, int]] = []
    placl.predict(model, film, track=True, on_progress=lambda done, total: told.append((done, total)))
    assert told == [*((i, 40) for i in range(1, 40)), (40, 41), (40, 40)]


@pytest.fixture
def cut(film: Path) -> Path:
    """The film without the end of its file: its header is as before."""
    content = film.read_bytes()
    film.write_bytes(content[: len(content) // 2])
    return film


def test_a_video_that_is_cut_off_is_predicted_as_far_as_it_goes(model: Model, cut: Path, tmp_path: Path) -> None:
    found = placl.predict(model, cut, overlay=tmp_path / "o.mp4")
    assert found.clip is not None
    n = found.clip.length
    assert 5 < n < 35
    assert errors(found.keypoints[: n - 1], PLACES[: n - 1]).max() < 4
    assert len(read_film(tmp_path / "o.mp4")) == n
    assert found.skipped == (
        f"film.avi: its header promises 40 frames, {n} came. What is missing is cut off or damaged.",
    )


def test_frames_that_cannot_be_decoded_keep_their_numbers(
    model: Model, film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(video: Path) -> object:
        for number, frame in enumerate(frame_files.decoded(video)):
            yield None if number in (0, 1, 7) else frame

    monkeypatch.setattr(prediction, "decoded", damaged)
    for track in (False, True):
        found = placl.predict(model, film, track=track, overlay=tmp_path / "o.mp4")
        assert found.clip is not None
        assert found.clip.frames.tolist() == [2, 3, 4, 5, 6, *range(8, 40)]
        assert found.skipped == ("film.avi: 3 of its 40 frames cannot be decoded; nothing is predicted in them.",)
        shown = read_film(tmp_path / "o.mp4")
        assert len(shown) == 40
        assert shown[1].max() < 20  # black
        assert np.abs(shown[7].astype(int) - shown[6]).mean() < 1  # the one before, again
        assert errors(found.keypoints, PLACES[found.clip.frames])[10:].max() < 4


@pytest.mark.parametrize("content", [b"", b"These are words, not a film.\n" * 50])
def test_files_that_are_no_video(model: Model, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "film.mp4").write_bytes(content)
    with pytest.raises(InputError, match=r"film\.mp4: is not a video that can be opened"):
        placl.predict(model, tmp_path / "film.mp4")


def test_no_frames(model: Model, film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "decoded", lambda video: iter([]))
    with pytest.raises(InputError, match=r"film\.avi: no frame can be decoded"):
        placl.predict(model, film, overlay=tmp_path / "o.mp4")
    assert not list(tmp_path.glob("*.mp4"))


def test_no_such_video(model: Model, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"film\.mp4: does not exist"):
        placl.predict(model, tmp_path / "film.mp4")


def test_tracking_and_overlays_are_for_videos(model: Model, annotations: Path) -> None:
    with pytest.raises(InputError, match="are for videos"):
        placl.predict(model, annotations, track=True)


def test_awkward_names(model: Model, film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    long = "a b'\"<é>%03d " + "x" * 230
    for name in (long[:196] + ".avi", "12:30.avi", "-q.avi"):
        shutil.copy(film, name)
        found = placl.predict(model, name, overlay=name[:-4] + ".mp4")
        found.save(name[:-4] + ".slp")
        assert len(found) == 40
        assert len(read_film(tmp_path / (name[:-4] + ".mp4"))) == 40


def test_an_interruption_leaves_nothing(model: Model, film: Path, tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        if done == 5:
            assert [file.suffix for file in (tmp_path / "out").iterdir()] == [".mp4"]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        placl.predict(model, film, track=True, overlay=tmp_path / "out" / "o.mp4", on_progress=interrupt)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("name", "length", "fps", "size"),
    [
        ("sleap/centered_pair_low_quality.mp4", 1100, 15.0, (384, 384)),
        ("lightning_pose/videos/test_vid.mp4", 994, 250.0, (396, 406)),
    ],
)
def test_real_videos(
    model: Model, shared: Path, tmp_path: Path, name: str, length: int, fps: float, size: tuple[int, int]
) -> None:
    found = placl.predict(model, shared / "formats" / name, overlay=tmp_path / "o.mp4")
    assert found.clip is not None
    assert (len(found), found.clip.length, found.clip.fps, found.clip.size) == (length, length, fps, size)
    shown = sum(frame is not None for frame in frame_files.decoded(tmp_path / "o.mp4"))
    head = frame_files.video_head(tmp_path / "o.mp4")
    assert (shown, head.promised, head.fps) == (length, length, fps)

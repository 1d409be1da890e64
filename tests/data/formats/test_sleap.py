"""SLEAP: what is labelled and what is predicted, frames that become files, and files that are written and read back."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cv2
import h5py
import numpy as np
import pytest
import sleap_io
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from placl.data.formats.format import Found, Options
from placl.data.formats.sleap import FORMAT
from placl.data.formats.video import read_videos
from placl.data.instances import Instances
from placl.data.skeleton import Skeleton
from placl.errors import InputError

NAMES = ["head", "wing_left", "wing_right"]
POINTS = np.array([[1.5, 2.25], [10, 11], [np.nan, np.nan]])


def picture(path: Path, value: int = 0, size: tuple[int, int] = (64, 48)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", size, value).save(path)
    return path


def fly_skeleton() -> Any:
    return sleap_io.Skeleton(list(NAMES), edges=[(0, 1), (0, 2)], symmetries=[(1, 2)])


def labels_on(video: Any, skeleton: Any) -> Any:
    """Frame 0: two labelled flies and a predicted one; frame 1: a predicted one; frame 2: nothing."""
    female = sleap_io.Track("female")
    first = sleap_io.Instance.from_numpy(POINTS, skeleton=skeleton, track=female)
    second = sleap_io.Instance.from_numpy(POINTS + 20, skeleton=skeleton)
    second.points["visible"][1] = False
    guess = [sleap_io.PredictedInstance.from_numpy(POINTS + i, skeleton=skeleton) for i in (5, 6)]
    frames = [
        sleap_io.LabeledFrame(video=video, frame_idx=0, instances=[first, guess[0], second]),
        sleap_io.LabeledFrame(video=video, frame_idx=1, instances=[guess[1]]),
        sleap_io.LabeledFrame(video=video, frame_idx=2, instances=[]),
    ]
    return sleap_io.Labels(frames, videos=[video], skeletons=[skeleton], tracks=[female])


def project(folder: Path, **changes: Any) -> Path:
    """labels.slp on three images."""
    images = [str(picture(folder / f"images/{i}.png", 10 * i)) for i in range(3)]
    path = folder / "labels.slp"
    sleap_io.save_slp(labels_on(sleap_io.Video.from_filename(images), fly_skeleton()), str(path), verbose=False)
    return path


def film(path: Path, frames: int = 4) -> Path:
    """Frame i is of grey value 40 * i."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 10, (64, 48))
    for i in range(frames):
        writer.write(np.full((48, 64, 3), 40 * i, np.uint8))
    writer.release()
    return path


def on_film(folder: Path, numbers: tuple[int, ...] = (2, 3), name: str = "fly.avi") -> Path:
    """labels.slp on frames of a video beside it, which it knows by the path on somebody else's disk."""
    film(folder / "fly.avi")
    skeleton = fly_skeleton()
    video = sleap_io.Video.from_filename(str(folder / "fly.avi"))
    frames = [
        sleap_io.LabeledFrame(
            video=video, frame_idx=number, instances=[sleap_io.Instance.from_numpy(POINTS, skeleton=skeleton)]
        )
        for number in numbers
    ]
    labels = sleap_io.Labels(frames, videos=[video], skeletons=[skeleton])
    video.replace_filename(f"C:/Users/them/{name}", open=False)
    video.close()
    sleap_io.save_slp(labels, str(folder / "labels.slp"), verbose=False)
    return folder / "labels.slp"


def read(path: Path, **options: Any) -> Found:
    return FORMAT.read(path, Options(**options))


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        read(path, **options)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value)


def test_labels_of_people_count_and_predictions_do_not(tmp_path: Path) -> None:
    path = project(tmp_path)
    assert FORMAT.claims(path)
    found = read(path)
    instances = found.instances
    assert instances.skeleton == Skeleton(tuple(NAMES), ((0, 1), (0, 2)), ((1, 2),))
    assert instances.images == (tmp_path / "images/0.png", tmp_path / "images/2.png")
    assert instances.image_index.tolist() == [0, 0, 1]
    assert instances.ids == ("0.png#1:female", "0.png#2", "2.png#1")
    assert instances.visibility.tolist() == [[2, 2, 0], [2, 1, 0], [0, 0, 0]]
    assert instances.keypoints[0].tolist() == [[1.5, 2.25], [10, 11], [0, 0]]  # pixel centres at integers, as here
    assert instances.boxes[0].tolist() == [1.5, 2.25, 9.5, 9.75]
    assert np.isnan(instances.boxes[2]).all()
    assert instances.drawn is not None
    assert instances.drawn.tolist() == [True, True, False]
    assert found.notes[0] == "labels.slp: 2 predicted instances are not labels and are left out."
    assert found.notes[1].startswith("labels.slp: 1 keypoints are marked as not visible.")


def test_old_files_have_the_origin_at_the_corner(tmp_path: Path) -> None:
    """Before format 1.1, half a pixel more was stored."""
    path = project(tmp_path)
    with h5py.File(path, "r+") as file:
        file["metadata"].attrs["format_id"] = 1.0
        keep = [name for name in file["instances"].dtype.names if name != "tracking_score"]
        rows = file["instances"][:][keep]
        del file["instances"]
        file["instances"] = rows.astype([(name, rows.dtype[name]) for name in keep])
    assert read(path).instances.keypoints[0, 0].tolist() == [1, 1.75]


def test_a_file_of_predictions_is_boxes_without_labels(tmp_path: Path) -> None:
    path = project(tmp_path)
    labels = sleap_io.load_slp(str(path), open_videos=False)
    for frame in labels.labeled_frames:
        frame.instances = frame.predicted_instances
    sleap_io.save_slp(labels, str(path), verbose=False)
    found = read(path)
    assert not found.instances.labelled.any()
    assert found.instances.boxes[:2].tolist() == [[6.5, 7.25, 9.5, 9.75], [7.5, 8.25, 9.5, 9.75]]
    assert np.isnan(found.instances.boxes[2]).all()
    assert found.notes == ("labels.slp: its 2 predicted instances are not labels; read as unlabelled boxes.",)


def test_frames_of_a_video_are_written_once(tmp_path: Path) -> None:
    path, frames = on_film(tmp_path), tmp_path / "frames"
    instances = read(path, frames=frames).instances
    assert [image.name for image in instances.images] == ["fly_000002.png", "fly_000003.png"]
    assert instances.images[0].parent.parent == frames
    assert instances.ids == ("fly_000002.png#1", "fly_000003.png#1")
    values = [int(np.median(cv2.imread(str(image)))) for image in instances.images]
    np.testing.assert_allclose(values, [80, 120], atol=3)
    before = [image.stat().st_mtime_ns for image in instances.images]
    assert read(path, frames=frames).instances.images == instances.images
    assert [image.stat().st_mtime_ns for image in instances.images] == before
    film(tmp_path / "fly.avi", frames=5)  # another video under the same name: its frames are others
    assert set(read(path, frames=frames).instances.images).isdisjoint(instances.images)
    assert not list(frames.rglob("*.part"))


def test_frames_are_those_of_the_video_as_an_unlabelled_source(tmp_path: Path) -> None:
    """A frame that is labelled here and unlabelled there would be two images."""
    path, frames = on_film(tmp_path), tmp_path / "frames"
    labelled = read(path, frames=frames).instances.images
    unlabelled = read_videos(tmp_path / "fly.avi", Options(frames=frames, count=4)).instances.images
    assert labelled == unlabelled[2:]


def test_a_frame_that_is_cut_off_is_written_anew(tmp_path: Path) -> None:
    path, frames = on_film(tmp_path), tmp_path / "frames"
    image = read(path, frames=frames).instances.images[0]
    content = image.read_bytes()
    image.write_bytes(content[:40])
    read(path, frames=frames)
    assert image.read_bytes() == content


@pytest.mark.parametrize("kind", ["images", "videos"])
def test_two_names_that_lead_to_one_file(tmp_path: Path, kind: str) -> None:
    """Labels of one video must not be read as labels of another."""
    names = [tmp_path / folder / ("1.png" if kind == "images" else "fly.avi") for folder in "ab"]
    for name in names:
        name.parent.mkdir()
        picture(name) if kind == "images" else film(name)
    videos = [sleap_io.Video.from_filename(str(name) if kind == "videos" else [str(name)]) for name in names]
    skeleton = fly_skeleton()
    animals = [sleap_io.Instance.from_numpy(POINTS, skeleton=skeleton) for _ in videos]
    frames = [
        sleap_io.LabeledFrame(video=video, frame_idx=0, instances=[animal])
        for video, animal in zip(videos, animals, strict=True)
    ]
    path = tmp_path / "labels.slp"
    sleap_io.save_slp(sleap_io.Labels(frames, videos=videos, skeletons=[skeleton]), str(path), verbose=False)
    assert len(read(path, frames=tmp_path / "frames").instances.images) == 2
    names[0].rename(tmp_path / names[0].name)
    names[1].unlink()
    message = refusal(path, frames=tmp_path / "frames")
    assert f'"{names[0]}" and "{names[1]}" both lead to {tmp_path / names[0].name}.' in message


def test_frames_go_to_the_cache_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACL_CACHE", str(tmp_path / "cache"))
    (image,) = read(on_film(tmp_path, (1,))).instances.images
    assert image.parent.parent == tmp_path / "cache/frames"


def test_frames_inside_a_package(tmp_path: Path) -> None:
    """Only frames with labels of people are embedded: frame 2, which has no instance, has no image there."""
    package = tmp_path / "labels.pkg.slp"
    sleap_io.save_slp(sleap_io.load_slp(str(project(tmp_path))), str(package), embed="user", verbose=False)
    for image in (tmp_path / "images").iterdir():
        image.write_bytes(b"gone")
    instances = read(package, frames=tmp_path / "frames").instances
    assert instances.ids == ("labels_000000.png#1:female", "labels_000000.png#2")
    assert cv2.imread(str(instances.images[0])).shape == (48, 64, 3)
    assert instances.keypoints[0, 0].tolist() == [1.5, 2.25]


def test_a_frame_that_a_package_lacks(tmp_path: Path) -> None:
    package = tmp_path / "labels.pkg.slp"
    sleap_io.save_slp(sleap_io.load_slp(str(project(tmp_path))), str(package), embed="user", verbose=False)
    with h5py.File(package, "r+") as file:
        frames = file["frames"][:]
        frames["frame_idx"][0] = 7
        file["frames"][:] = frames
    assert f"frame 7 of {package} cannot be read" in refusal(package, frames=tmp_path / "frames")


def test_a_video_may_be_elsewhere(tmp_path: Path) -> None:
    path = on_film(tmp_path)
    (tmp_path / "films").mkdir()
    (tmp_path / "fly.avi").rename(tmp_path / "films/fly.avi")
    assert refusal(path) == (
        f'{path}: video "C:/Users/them/fly.avi" does not exist under {tmp_path}. Pass --images DIR.'
    )
    assert len(read(path, images=tmp_path / "films", frames=tmp_path / "frames").instances) == 2


def test_what_is_wrong_with_a_video(tmp_path: Path) -> None:
    assert "frame 7 of" in refusal(on_film(tmp_path, (7,)), frames=tmp_path / "frames")
    (tmp_path / "fly.avi").write_bytes(b"nothing")
    assert "cannot be read" in refusal(tmp_path / "labels.slp", frames=tmp_path / "frames")


def test_a_missing_image(tmp_path: Path) -> None:
    path = project(tmp_path)
    (tmp_path / "images/2.png").unlink()
    assert "frame 2: image" in refusal(path)
    assert "does not exist. Pass --images DIR." in refusal(path)


@pytest.mark.parametrize("content", [b"", b"nothing", b"\x89HDF\r\n\x1a\n" + bytes(100)])
def test_not_a_sleap_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "labels.slp"
    path.write_bytes(content)
    assert "is not a SLEAP file (" in refusal(path)


def test_a_truncated_file(tmp_path: Path) -> None:
    path = project(tmp_path)
    path.write_bytes(path.read_bytes()[:5000])
    assert "is not a SLEAP file (" in refusal(path)


@pytest.mark.parametrize("number", [np.inf, 1e300])  # float32 holds neither
def test_an_infinite_coordinate(tmp_path: Path, number: float) -> None:
    path = project(tmp_path)
    with h5py.File(path, "r+") as file:
        points = file["points"][:]
        points["x"][1] = number
        file["points"][:] = points
    assert 'frame 0: keypoint "wing_left" is not finite.' in refusal(path)


def test_keypoints_option(tmp_path: Path) -> None:
    path = project(tmp_path)
    skeleton = read(path, keypoints=("a", "b", "c")).instances.skeleton
    assert skeleton == Skeleton(("a", "b", "c"), ((0, 1), (0, 2)), ((1, 2),))
    assert "has 3 keypoints, --keypoints names 2." in refusal(path, keypoints=("a", "b"))


def same(a: Instances, b: Instances) -> None:
    assert (a.skeleton, a.images, a.ids) == (b.skeleton, b.images, b.ids)
    assert a.drawn is not None
    for name in ("image_index", "boxes", "keypoints", "visibility", "area", "drawn"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def written(instances: Instances, path: Path) -> Path:
    assert FORMAT.write is not None
    (file,) = FORMAT.write(instances, path)
    return file


def test_round_trip(tmp_path: Path) -> None:
    first = read(project(tmp_path)).instances
    file = written(first, tmp_path / "copy")
    assert file == tmp_path / "copy/labels.slp"
    same(first, read(file).instances)
    assert [path.name for path in file.parent.iterdir()] == ["labels.slp"]
    labels = sleap_io.load_slp(str(file))  # as SLEAP would see it: images found, tracks kept
    assert labels.videos[0].shape == (2, 48, 64, 1)
    assert [track.name for track in labels.tracks] == ["female"]


def test_images_of_other_sizes_are_other_videos(tmp_path: Path) -> None:
    images = (picture(tmp_path / "a.png"), picture(tmp_path / "b.png", size=(20, 30)), picture(tmp_path / "c.png"))
    points = np.arange(6, dtype=np.float32).reshape(3, 1, 2)
    nothing, whole = np.full(3, np.nan, np.float32), np.full((3, 4), np.nan)
    visibility = np.full((3, 1), 2, np.uint8)
    given_ones = Instances(Skeleton(("p",)), images, np.arange(3), whole, points, visibility, nothing, ("1", "2", "3"))
    file = written(given_ones, tmp_path / "x.slp")
    assert [len(video.filename) for video in sleap_io.load_slp(str(file)).videos] == [2, 1]
    found = read(file).instances
    assert found.images == images
    assert found.keypoints.tolist() == points.tolist()


def test_plain_images_cannot_be_written(tmp_path: Path) -> None:
    nothing = np.zeros((1, 0), np.uint8)
    plain = Instances(
        None,
        (picture(tmp_path / "a.png"),),
        np.zeros(1, np.int64),
        np.full((1, 4), np.nan),
        np.zeros((1, 0, 2), np.float32),
        nothing,
        np.full(1, np.nan, np.float32),
        ("a",),
    )
    with pytest.raises(InputError, match="needs a skeleton"):
        written(plain, tmp_path / "x.slp")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    root = tmp_path_factory.mktemp("pictures")
    return tuple(picture(root / f"{i}.png") for i in range(3))


@settings(max_examples=25, deadline=None)
@given(
    index=st.lists(st.integers(0, 2), min_size=1, max_size=6).map(sorted),
    seed=st.integers(0, 2**32 - 1),
    tracks=st.lists(st.sampled_from(["", "a b", "x:1", "#2"]), min_size=6, max_size=6),
)
def test_what_is_written_is_read_back(
    pictures: tuple[Path, ...], index: list[int], seed: int, tracks: list[str]
) -> None:
    rng = np.random.default_rng(seed)
    used, image_index = np.unique(index, return_inverse=True)
    n = len(index)
    visibility = rng.integers(0, 3, (n, 3)).astype(np.uint8)
    points = rng.normal(0, 1e3, (n, 3, 2)).astype(np.float32)
    points[visibility == 0] = 0
    position = np.array([list(image_index[: i + 1]).count(image) for i, image in enumerate(image_index)])
    alone = np.bincount(image_index)[image_index] == 1
    kept = [track if visible or not single else "" for track, visible, single in zip(
        tracks, visibility.any(axis=1), alone, strict=False
    )]  # fmt: skip  # an image without labels has no instance that could have a track
    ids = tuple(
        f"{used[image]}.png#{number}" + (f":{track}" if track else "")
        for image, number, track in zip(image_index, position, kept, strict=True)
    )
    given_ones = Instances(
        Skeleton(("nose", "eye", "tail"), ((0, 1),), ((1, 2),)),
        tuple(pictures[i] for i in used),
        image_index,
        np.full((n, 4), np.nan),
        points,
        visibility,
        np.full(n, np.nan, np.float32),
        ids,
    )
    with TemporaryDirectory() as folder:
        found = read(written(given_ones, Path(folder) / "labels.slp")).instances
    assert (found.skeleton, found.images, found.ids) == (given_ones.skeleton, given_ones.images, ids)
    for name in ("image_index", "keypoints", "visibility"):
        np.testing.assert_array_equal(getattr(found, name), getattr(given_ones, name), err_msg=name)


@pytest.mark.realdata
class TestRealFiles:
    @pytest.mark.parametrize("name", ["typical.slp", "minimal_instance.pkg.slp"])
    def test_labelled_flies(self, shared: Path, tmp_path: Path, name: str) -> None:
        path = shared / "formats/sleap" / name
        instances = read(path, frames=tmp_path).instances
        assert instances.skeleton == Skeleton(("A", "B"), ((0, 1),))
        np.testing.assert_allclose(instances.keypoints[0], [[92.6522, 202.7260], [152.3419, 158.4236]], atol=1e-4)
        assert (instances.visibility == 2).all()
        assert cv2.imread(str(instances.images[0])).shape == (384, 384, 3)
        # Both keypoints of a fly are on it, and a fly is bright.
        image = cv2.imread(str(instances.images[0]), cv2.IMREAD_GRAYSCALE)
        assert all(image[round(float(y)), round(float(x))] > 40 for x, y in instances.keypoints.reshape(-1, 2))
        same(instances, read(written(instances, tmp_path / "copy.slp")).instances)

    def test_predicted_flies(self, shared: Path, tmp_path: Path) -> None:
        path = shared / "formats/sleap/centered_pair_predictions.slp"
        labels = sleap_io.load_slp(str(path), open_videos=False)
        labels.labeled_frames = labels.labeled_frames[:10]
        sleap_io.save_slp(labels, str(tmp_path / "some.slp"), verbose=False)
        found = read(tmp_path / "some.slp", images=path.parent, frames=tmp_path)
        assert len(found.instances.images) == 10
        assert not found.instances.labelled.any()
        assert found.instances.boxes[0].tolist() == [187, 150, 98, 90]
        assert found.instances.skeleton is not None
        assert len(found.instances.skeleton) == 24
        assert len(found.instances.skeleton.flip_pairs) == 10

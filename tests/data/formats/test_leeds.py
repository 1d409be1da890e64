"""LSP and LSPET: two files that look alike, and what is labelled in each."""

import contextlib
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from hypothesis import given, settings
from hypothesis import strategies as st

from placl.data.formats.format import Format, Options
from placl.data.formats.leeds import LSP, LSPET, SKELETON
from placl.data.formats.matlab import load_mat, mat_shapes
from placl.errors import InputError

X, Y, FLAG = 0, 1, 2


def people(count: int) -> np.ndarray:
    """(N, 14, 3): joint k of person i is at (10 i + k, 2 k), every flag 0."""
    joints = np.zeros((count, 14, 3))
    joints[..., X] = 10 * np.arange(count)[:, None] + np.arange(14)
    joints[..., Y] = 2 * np.arange(14)
    return joints


def write(folder: Path, joints: np.ndarray, kind: str, images: tuple[int, ...]) -> Path:
    """A dataset with the given images (numbers from 1)."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    axes = (2, 1, 0) if kind == "lsp" else (1, 2, 0)
    scipy.io.savemat(folder / "joints.mat", {"joints": joints.transpose(axes)})
    for number in images:
        (folder / "images" / (f"im{number:04d}.jpg" if kind == "lsp" else f"im{number:05d}.jpg")).touch()
    return folder


def refusal(known: Format, path: Path, options: Options | None = None) -> str:
    with pytest.raises(InputError) as caught:
        known.read(path, options or Options())
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_in_lsp_the_flag_means_occluded_and_every_joint_is_labelled(tmp_path: Path) -> None:
    joints = people(2)
    joints[1, 3, FLAG] = 1
    instances = LSP.read(write(tmp_path, joints, "lsp", (1, 2)), Options()).instances
    assert instances.visibility[0].tolist() == [2] * 14
    assert instances.visibility[1].tolist() == [2, 2, 2, 1] + [2] * 10
    assert instances.keypoints[1, 3].tolist() == [13, 6]  # counted from 0, so nothing is subtracted
    assert instances.ids == ("im0001.jpg#1", "im0002.jpg#2")
    assert instances.images == (tmp_path / "images/im0001.jpg", tmp_path / "images/im0002.jpg")
    assert instances.sources == (str(tmp_path / "joints.mat"),) * 2


def test_in_lspet_the_flag_means_visible_and_the_rest_is_unlabelled(tmp_path: Path) -> None:
    joints = people(2)
    joints[..., FLAG] = 1
    joints[0, 0] = (-53.3, -322.2, 0)  # such junk must not reach the box either
    joints[0, 13] = (400, -1.2, 1)  # outside the image and labelled all the same
    instances = LSPET.read(write(tmp_path, joints, "lspet", (1, 2)), Options()).instances
    assert instances.visibility[0].tolist() == [0] + [2] * 13
    assert instances.keypoints[0, 0].tolist() == [0, 0]
    assert instances.keypoints[0, 13].tolist() == pytest.approx([400, -1.2])
    assert instances.boxes[0].tolist() == pytest.approx([1, -1.2, 400, 26.2], abs=1e-5)  # x 1..400, y -1.2..24
    assert instances.ids == ("im00001.jpg#1", "im00002.jpg#2")


def test_boxes_are_drawn_around_the_joints(tmp_path: Path) -> None:
    instances = LSP.read(write(tmp_path, people(2), "lsp", (1, 2)), Options()).instances
    assert instances.boxes.tolist() == [[0, 0, 14, 27], [10, 0, 14, 27]]
    assert instances.area.tolist() == [14 * 27] * 2
    assert instances.drawn is not None
    assert instances.drawn.tolist() == [True, True]


def test_without_two_joints_the_box_is_the_whole_image(tmp_path: Path) -> None:
    joints = people(2)
    joints[1, 5, FLAG] = 1
    instances = LSPET.read(write(tmp_path, joints, "lspet", (1, 2)), Options()).instances
    assert np.isnan(instances.boxes).all()
    assert instances.drawn is not None
    assert not instances.drawn.any()
    assert instances.labelled.tolist() == [False, True]


def test_the_shape_tells_them_apart(tmp_path: Path) -> None:
    lsp = write(tmp_path / "a", people(2), "lsp", (1,))
    lspet = write(tmp_path / "b", people(2), "lspet", (1,))
    assert [LSP.claims(lsp), LSPET.claims(lsp), LSP.claims(lspet), LSPET.claims(lspet)] == [True, False, False, True]
    assert LSP.claims(lsp / "joints.mat")
    assert LSPET.claims(lspet / "joints.mat")
    assert "has shape (14, 3, 2)" in refusal(LSP, lspet)
    assert refusal(LSP, lspet).endswith("Pass --format lspet.")
    assert refusal(LSPET, lsp).endswith("Pass --format lsp.")


def test_nothing_else_is_claimed(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "joints.mat", {"joints": np.zeros((16, 2, 5))})
    (tmp_path / "broken.mat").write_bytes(b"MATLAB 5.0 MAT-file" + bytes(200))
    (tmp_path / "empty.mat").touch()
    (tmp_path / "joints.txt").write_text("joints")
    for path in (tmp_path, *tmp_path.iterdir(), tmp_path / "nowhere"):
        assert not LSP.claims(path)
        assert not LSPET.claims(path)


def test_missing_images_are_counted_in_one_note(tmp_path: Path) -> None:
    found = LSP.read(write(tmp_path, people(1500), "lsp", (2, 1000, 1001)), Options())
    assert found.notes == (f"{tmp_path / 'joints.mat'}: 1,497 of 1,500 images are missing and left out.",)
    assert found.instances.ids == ("im0002.jpg#2", "im1000.jpg#1000", "im1001.jpg#1001")
    assert found.instances.keypoints[:, 0, X].tolist() == [10, 9990, 10000]
    assert found.instances.splits == ("train", "train", "test")


def test_no_image_at_all_is_refused(tmp_path: Path) -> None:
    message = refusal(LSP, write(tmp_path, people(20), "lsp", ()))
    assert 'none of its 20 images, such as "im0001.jpg"' in message
    assert message.endswith("Pass --images DIR.")


def test_a_whole_dataset_has_no_notes_and_lspet_only_trains(tmp_path: Path) -> None:
    found = LSPET.read(write(tmp_path, people(3), "lspet", (1, 2, 3)), Options())
    assert found.notes == ()
    assert found.instances.splits == ("train",) * 3


def test_images_elsewhere_and_other_names(tmp_path: Path) -> None:
    write(tmp_path / "labels", people(2), "lsp", ())
    write(tmp_path / "pictures", people(2), "lsp", (1, 2))
    names = tuple(f"k{i}" for i in range(14))
    options = Options(images=tmp_path / "pictures" / "images", keypoints=names)
    instances = LSP.read(tmp_path / "labels" / "joints.mat", options).instances
    assert instances.images[0] == tmp_path / "pictures/images/im0001.jpg"
    assert instances.skeleton is not None
    assert instances.skeleton.keypoints == names
    assert len(instances.skeleton.flip_pairs) == 6
    assert "names 2 keypoints, the dataset has 14" in refusal(LSP, tmp_path / "pictures", Options(keypoints=("a", "b")))
    assert "repeat" in refusal(LSP, tmp_path / "pictures", Options(keypoints=("a",) * 14))


def test_left_mirrors_right() -> None:
    mirrored = [SKELETON.keypoints[k] for k in SKELETON.flip_order]
    swap = {"left": "right", "right": "left"}
    expected = ["_".join(swap.get(word, word) for word in name.split("_")) for name in SKELETON.keypoints]
    assert mirrored == expected


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (np.nan, "joints.mat: left_hip of im0002.jpg has a coordinate that is not finite"),
        (np.inf, "joints.mat: left_hip of im0002.jpg has a coordinate that is not finite"),
    ],
)
def test_a_bad_coordinate_is_named(tmp_path: Path, value: float, complaint: str) -> None:
    joints = people(2)
    joints[1, 3, X] = value
    assert complaint in refusal(LSP, write(tmp_path, joints, "lsp", (1, 2)))


def test_a_bad_flag_is_named(tmp_path: Path) -> None:
    joints = people(2)
    joints[1, 12, FLAG] = 2
    expected = "neck of im00002.jpg has flag 2, expected 0 or 1."
    assert expected in refusal(LSPET, write(tmp_path, joints, "lspet", (1, 2)))


def test_broken_files_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path, people(50), "lsp", (1,)) / "joints.mat"
    whole = file.read_bytes()
    for broken in (b"", b"no MATLAB file", whole[:200], whole[: len(whole) // 2]):
        file.write_bytes(broken)
        assert str(file) in refusal(LSP, tmp_path)
    assert "is not a MATLAB file that can be read" in refusal(LSP, tmp_path / "nowhere.mat")
    scipy.io.savemat(file, {"other": np.zeros(3)})
    assert 'has no variable "joints"' in refusal(LSP, tmp_path)
    scipy.io.savemat(file, {"joints": "text"})
    assert '"joints" has' in refusal(LSP, tmp_path)
    scipy.io.savemat(file, {"joints": np.full((3, 14, 2), "x", object)})
    assert "does not hold numbers" in refusal(LSP, tmp_path)


def test_a_file_on_which_scipy_crashes_is_refused(tmp_path: Path) -> None:
    write(tmp_path, people(2), "lsp", (1, 2))
    data = bytearray((tmp_path / "joints.mat").read_bytes())
    data[192:200] = bytes(8)  # the array's numbers: of no type, none of them (a segmentation fault in SciPy 1.17)
    (tmp_path / "joints.mat").write_bytes(data)
    assert refusal(LSP, tmp_path).startswith(f"{tmp_path / 'joints.mat'}: ")


@settings(max_examples=10, deadline=None)
@given(place=st.integers(0, 2000), value=st.integers(0, 255))
def test_a_damaged_file_is_read_or_refused_and_never_crashes(
    tmp_path_factory: pytest.TempPathFactory, place: int, value: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "damaged"
    folder.mkdir(exist_ok=True)
    scipy.io.savemat(folder / "whole.mat", {"joints": people(2).transpose(2, 1, 0)}, do_compression=True)
    data = bytearray((folder / "whole.mat").read_bytes())
    data[place % len(data)] = value
    (folder / "joints.mat").write_bytes(data)
    mat_shapes(folder / "joints.mat")
    LSP.claims(folder)
    with contextlib.suppress(InputError):
        load_mat(folder / "joints.mat", "joints")


@pytest.mark.realdata
@pytest.mark.parametrize("known", [LSP, LSPET])
def test_agrees_with_the_crops_made_of_the_same_data(shared: Path, known: Format) -> None:
    """Which joints count as labelled, and where they are up to the crop's place."""
    found = known.read(shared / "formats" / known.name, Options())
    total = {"lsp": "1,960 of 2,000", "lspet": "9,960 of 10,000"}[known.name]
    assert [total in note for note in found.notes] == [True]
    instances = found.instances
    with tarfile.open(shared / "data" / f"{known.name}.tar") as tar:
        member = tar.extractfile("annotations.json")
        assert member is not None
        data = json.load(member)
    assert len(instances) == 40
    for i, (image, annotation) in enumerate(zip(data["images"][:40], data["annotations"][:40], strict=True)):
        crop = np.array(annotation["keypoints"]).reshape(14, 3)
        labelled = crop[:, 2] > 0
        assert image["source_file"] == instances.images[i].name
        assert image["split"] == instances.splits[i]
        assert crop[:, 2].tolist() == instances.visibility[i].tolist()
        shift = crop[labelled, :2] / image["crop_scale"] - instances.keypoints[i][labelled]
        assert np.ptp(shift, axis=0).max() < 0.05  # the same for all joints
        centre = instances.boxes[i, :2] + instances.boxes[i, 2:] / 2 - 0.5 + shift.mean(axis=0)
        assert np.abs(centre * image["crop_scale"] - 63.5).max() < 1  # crops are drawn around the same boxes
        assert instances.boxes[i, 2:].max() - 1 == pytest.approx(128 / 1.25 / image["crop_scale"], abs=0.01)

"""CUB-200-2011: what its text files say of a bird, and what is said about every kind of broken file."""

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

from placl.data.formats.cub import FORMAT, read_cub
from placl.data.formats.format import Options
from placl.errors import InputError

FILES = {
    "images.txt": "1 001.Albatross/a.jpg\n2 001.Albatross/b.jpg\n7 002.Vireo/c d.jpg\n",
    "classes.txt": "1 001.Albatross\n2 002.Vireo\n3 003.Crow\n",
    "image_class_labels.txt": "1 1\n2 1\n7 2\n",
    "train_test_split.txt": "1 0\n2 1\n7 1\n",
    "bounding_boxes.txt": "1 60.0 27.0 325.0 304.0\n2 0.0 30.0 153.0 264.0\n7 1.0 2.0 3.0 4.0\n",
    "parts/parts.txt": "1 back\n2 left eye\n3 right eye\n4 tail\n",
    "parts/part_locs.txt": "".join(
        f"{image} {part} {100.0 * image + part} {part}.5 {int(part != 3)}\n"
        for image in (1, 2, 7)
        for part in (1, 2, 3, 4)
    ),
}


def write(parent: Path, **changes: str) -> Path:
    """The dataset with some files replaced; ``part_locs="..."`` replaces parts/part_locs.txt."""
    root = parent / "CUB_200_2011"
    texts = {name: changes.get(Path(name).stem, text) for name, text in FILES.items()}
    for name in ("001.Albatross/a.jpg", "001.Albatross/b.jpg", "002.Vireo/c d.jpg"):
        (root / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "images" / name).touch()
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def refusal(path: Path, options: Options | None = None) -> str:
    with pytest.raises(InputError) as caught:
        read_cub(path, options or Options())
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_reads_boxes_parts_classes_and_splits(tmp_path: Path) -> None:
    root = write(tmp_path)
    instances = read_cub(root, Options()).instances
    assert instances.skeleton is not None
    assert instances.skeleton.keypoints == ("back", "left_eye", "right_eye", "tail")
    assert instances.skeleton.flip_pairs == ((1, 2),)
    assert instances.skeleton.edges == ((0, 3),)
    assert instances.images[2] == root / "images/002.Vireo/c d.jpg"
    assert instances.boxes.tolist() == [[60, 27, 325, 304], [0, 30, 153, 264], [1, 2, 3, 4]]
    assert instances.keypoints[2].tolist() == [[701, 1.5], [702, 2.5], [0, 0], [704, 4.5]]  # nothing is subtracted
    assert instances.visibility.tolist() == [[2, 2, 0, 2]] * 3
    assert instances.classes == ("001.Albatross", "001.Albatross", "002.Vireo")
    assert instances.splits == ("test", "train", "train")
    assert instances.ids == ("001.Albatross/a.jpg#1", "001.Albatross/b.jpg#2", "002.Vireo/c d.jpg#7")
    assert instances.drawn is None


def test_the_folder_and_its_parent_are_claimed(tmp_path: Path) -> None:
    root = write(tmp_path)
    assert FORMAT.claims(root)
    assert FORMAT.claims(tmp_path)
    assert read_cub(tmp_path, Options()).instances.ids == read_cub(root, Options()).instances.ids
    for path in (root / "images.txt", root / "images", root / "parts", tmp_path.parent, tmp_path / "nowhere"):
        assert not FORMAT.claims(path)


def test_the_order_of_lines_does_not_matter(tmp_path: Path) -> None:
    expected = read_cub(write(tmp_path / "a"), Options()).instances
    backwards = {Path(name).stem: "\n".join(reversed(text.splitlines())) for name, text in FILES.items()}
    backwards |= {"images": FILES["images.txt"], "parts": FILES["parts/parts.txt"]}
    found = read_cub(write(tmp_path / "b", **backwards), Options()).instances
    assert np.array_equal(found.keypoints, expected.keypoints)
    assert np.array_equal(found.boxes, expected.boxes)
    assert (found.classes, found.splits) == (expected.classes, expected.splits)


def test_a_shorter_list_of_images_takes_its_part_of_the_other_files(tmp_path: Path) -> None:
    instances = read_cub(write(tmp_path, images="7 002.Vireo/c d.jpg\n\n"), Options()).instances
    assert instances.ids == ("002.Vireo/c d.jpg#7",)
    assert instances.keypoints[0, 0].tolist() == [701, 1.5]
    assert instances.classes == ("002.Vireo",)


def test_images_elsewhere_and_other_names(tmp_path: Path) -> None:
    root = write(tmp_path)
    (root / "images").rename(tmp_path / "pictures")
    assert 'image "001.Albatross/a.jpg" does not exist under' in refusal(root)
    options = Options(images=tmp_path / "pictures", keypoints=("a", "b", "c", "d"))
    instances = read_cub(root, options).instances
    assert instances.images[0] == tmp_path / "pictures/001.Albatross/a.jpg"
    assert instances.skeleton is not None
    assert instances.skeleton.keypoints == ("a", "b", "c", "d")
    assert instances.skeleton.flip_pairs == ((1, 2),)


@pytest.mark.parametrize(
    ("stem", "text", "complaint"),
    [
        ("part_locs", "1 1 2 3 1\n1 2 2 1\n", "part_locs.txt: line 2 is not 5 numbers"),
        ("part_locs", "1 1 2 3 1\n\n1 2 x 4 1\n", "part_locs.txt: line 3 is not 5 numbers"),
        ("part_locs", "1 1 2 3 1\n1 2 nan 4 1\n", "part_locs.txt: line 2 holds a number that is not finite"),
        ("part_locs", "1 1 2 3 1\n1 2 inf 4 1\n", "part_locs.txt: line 2 holds a number that is not finite"),
        ("part_locs", "1 1 2 3 1\n1 5 2 4 1\n", "part_locs.txt: line 2 is of part 5, which parts.txt lacks"),
        ("part_locs", "1 1 2 3 1\n1 2 2 4 2\n", "part_locs.txt: line 2 has visibility 2, expected 0 or 1"),
        ("part_locs", "1 1 2 3 1\n1 2 2 3 1\n1 1 9 9 1\n", "part_locs.txt: line 3 repeats part 1 of image 1"),
        ("part_locs", "", "part_locs.txt: is empty"),
        ("parts", "one back\n", 'parts.txt: line 1 is not a number and a name, as in "1 back"'),
        ("parts", "1 back\n1 tail\n", "parts.txt: line 2 repeats number 1"),
        ("parts", "1 back\n2 back\n3 a\n4 b", "parts.txt: back occurs twice"),
        ("images", "\n", "images.txt: is empty"),
        ("images", "1 001.Albatross/a.jpg\n2\n", "images.txt: line 2 is not a number and a name"),
        ("images", "1 001.Albatross/a.jpg\n2 001.Albatross/a.jpg\n", "images.txt: two images are one file"),
        ("bounding_boxes", "1 2 3 4 5\n2 2 3 4 5\n", "bounding_boxes.txt: has no line for image 7"),
        ("bounding_boxes", "1 2 3 4 5\n2 2 3 0 5\n7 2 3 4 5", "bounding_boxes.txt: the box of image 2 has no size"),
        ("bounding_boxes", "1 2 3 4 5\n2 2 3 4 5\n1 2 3 4 5", "bounding_boxes.txt: line 3 repeats image 1"),
        ("image_class_labels", "1 1\n2 1\n7 9\n", "image 7 is of class 9, which classes.txt lacks"),
        ("train_test_split", "1 1\n2 1\n", "train_test_split.txt: has no line for image 7"),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path: Path, stem: str, text: str, complaint: str) -> None:
    assert complaint in refusal(write(tmp_path, **{stem: text}))


def test_missing_files_and_images(tmp_path: Path) -> None:
    root = write(tmp_path)
    (root / "bounding_boxes.txt").unlink()
    assert "bounding_boxes.txt: cannot be read" in refusal(root)
    (root / "bounding_boxes.txt").write_bytes(b"\xff\xfe\x00")
    assert "bounding_boxes.txt: is not text" in refusal(root)
    root = write(tmp_path)
    (root / "images/002.Vireo/c d.jpg").unlink()
    assert 'images.txt: image 7: image "002.Vireo/c d.jpg" does not exist' in refusal(root)
    assert "images.txt: cannot be read" in refusal(tmp_path / "nowhere")


@pytest.mark.realdata
def test_agrees_with_the_crops_made_of_the_same_data(shared: Path) -> None:
    instances = read_cub(shared / "formats" / "cub", Options()).instances
    assert len(instances) == 42
    assert instances.skeleton is not None
    with tarfile.open(shared / "data" / "cub.tar") as tar:
        member = tar.extractfile("annotations.json")
        assert member is not None
        data = json.load(member)
    category = data["categories"][0]
    assert instances.skeleton.keypoints == tuple(category["keypoints"])
    assert instances.skeleton.flip_pairs == tuple(map(tuple, category["flip_pairs"]))
    assert {frozenset(edge) for edge in instances.skeleton.edges} == {
        frozenset((a - 1, b - 1)) for a, b in category["skeleton"]
    }
    crops = {
        image["source_file"]: (image, annotation)
        for image, annotation in zip(data["images"], data["annotations"], strict=True)
    }
    for i, name in enumerate(instances.ids):
        image, annotation = crops[name.rpartition("#")[0]]
        scale, crop = image["crop_scale"], np.array(annotation["keypoints"]).reshape(15, 3)
        assert crop[:, 2].tolist() == instances.visibility[i].tolist()
        assert image["split"] == instances.splits[i]
        assert image["class_id"] == int(instances.classes[i].partition(".")[0])
        # Crops are 128 px of 1.25 boxes: the centre of the box is the centre of the crop.
        corner = instances.boxes[i, :2] + instances.boxes[i, 2:] / 2 - 64 / scale
        expected = (instances.keypoints[i] + 0.5 - corner) * scale - 0.5
        labelled = crop[:, 2] > 0
        assert np.abs(crop[labelled, :2] - expected[labelled]).max() < 0.02

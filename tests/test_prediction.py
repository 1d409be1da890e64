"""Predictions against dots at known places, from every kind of source."""

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

import placl
from dots import dot_picture, true_places
from placl import prediction
from placl.data.crop_cache import build_pool
from placl.data.formats.coco import read_coco
from placl.errors import InputError
from placl.learn.label import label
from placl.model import Model


@pytest.fixture
def model(run: Path) -> Model:
    return Model.from_dir(run)


def test_boxes_of_a_coco_file(model: Model, annotations: Path) -> None:
    found = placl.predict(model, annotations)
    assert np.abs(found.keypoints - true_places(annotations)).max() < 1  # 60 px are seen at 64: about one to one
    assert found.confidence.min() > 0.9
    assert found.image_ids == (11, 11, 12, 12, 13, 13)
    assert found.category_ids == (7,) * 6
    assert found.boxes[1].tolist() == [104, 8, 48, 48]
    assert found.names[2] == "images/1.png"


def test_the_order_is_that_of_the_file_whatever_the_chunks(
    model: Model, annotations: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = json.loads(annotations.read_text())
    content["annotations"] = [content["annotations"][i] for i in (4, 0, 3, 2, 5, 1)]
    annotations.write_text(json.dumps(content))
    monkeypatch.setattr(prediction, "IMAGES_AT_ONCE", 1)
    told: list[tuple[int, int]] = []
    found = placl.predict(model, annotations, on_progress=lambda done, total: told.append((done, total)))
    assert found.image_ids == (13, 11, 12, 12, 13, 11)
    assert np.abs(found.keypoints - true_places(annotations)).max() < 1
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_the_pixels_are_those_that_training_sees(model: Model, annotations: Path, tmp_path: Path) -> None:
    settings = model.config.data
    assert (model.config.model.input_size, model.config.view) == (64, 96)  # crops serve the teachers, too
    pool, _ = build_pool(
        read_coco(annotations), view=96, context=settings.context, margin=settings.margin, cache=tmp_path / "cache"
    )
    expected = label(model.net, pool, model.config)
    found = placl.predict(model, annotations)
    assert found.keypoints.tobytes() == pool.in_image(expected.keypoints).tobytes()
    assert found.confidence.tobytes() == expected.confidence.tobytes()


def test_labels_of_the_source_are_not_looked_at(model: Model, annotations: Path) -> None:
    before = placl.predict(model, annotations)
    content = json.loads(annotations.read_text())
    for annotation in content["annotations"]:
        annotation["keypoints"] = [1, 2, 2]
    annotations.write_text(json.dumps(content))
    assert placl.predict(model, annotations).to_coco() == before.to_coco()


def test_a_folder_with_boxes(model: Model, annotations: Path) -> None:
    found = placl.predict(model, annotations.parent / "images", annotations)
    assert found.to_coco() == placl.predict(model, annotations).to_coco()


def test_files_that_say_filename_are_predicted_as_source_and_as_boxes(model: Model, annotations: Path) -> None:
    expected = placl.predict(model, annotations).to_coco()
    annotations.write_text(annotations.read_text().replace('"file_name"', '"filename"'))  # as ATRW's authors write it
    assert placl.predict(model, annotations).to_coco() == expected
    assert placl.predict(model, annotations.parent / "images", annotations).to_coco() == expected


def test_a_folder_without_boxes_is_counted_from_one(model: Model, annotations: Path) -> None:
    found = placl.predict(model, annotations.parent)
    assert found.image_ids == (1, 2, 3)
    assert found.names == ("images/0.png", "images/1.png", "images/2.png")
    assert found.category_ids == (1, 1, 1)
    assert found.boxes[0].tolist() == [0, 0, 160, 64]


def test_one_image(model: Model, annotations: Path) -> None:
    found = placl.predict(model, str(annotations.parent / "images" / "1.png"))
    assert found.names == ("1.png",)


def test_a_list_may_name_a_file_twice(model: Model, annotations: Path) -> None:
    file = annotations.parent / "images" / "0.png"
    found = model([file, dot_picture(true_places(annotations)[:1]), str(file)])
    assert len(found) == 3
    assert (found.keypoints[0] == found.keypoints[2]).all()


def test_images_elsewhere(model: Model, annotations: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere.json"
    moved.write_text(annotations.read_text())
    assert len(placl.predict(model, moved, images=annotations.parent)) == 6


def test_unreadable_images_are_skipped_and_named(model: Model, annotations: Path) -> None:
    (annotations.parent / "images" / "1.png").write_bytes(b"no image")
    found = placl.predict(model, annotations)
    assert found.image_ids == (11, 11, 13, 13)
    (line,) = found.skipped
    assert line.endswith("1.png: not a known image format")


def test_images_without_an_annotation_are_counted(model: Model, annotations: Path) -> None:
    content = json.loads(annotations.read_text())
    content["annotations"] = content["annotations"][:2]
    annotations.write_text(json.dumps(content))
    assert placl.predict(model, annotations).notes == (
        "annotations.json: 2 images have no annotation and are left out.",
    )
    folder = annotations.parent / "images"
    assert placl.predict(model, folder, annotations).notes == (
        f"annotations.json: 2 images in {folder} have no box there and are left out.",
    )
    assert placl.predict(model, folder).notes == ()


def test_files_and_folders_can_be_left_out(model: Model, annotations: Path) -> None:
    found = placl.predict(model, annotations.parent, besides=[annotations.parent / "images" / "1.png"])
    assert found.names == ("images/0.png", "images/2.png")


def test_nothing_readable(model: Model, tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"")
    with pytest.raises(InputError, match=r"a\.jpg: the file is empty\. None of the 1 images"):
        placl.predict(model, tmp_path)


def test_no_such_source(model: Model, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: does not exist"):
        placl.predict(model, tmp_path / "nowhere")


def test_two_sources_of_boxes(model: Model, annotations: Path) -> None:
    with pytest.raises(InputError, match="brings its own boxes"):
        placl.predict(model, annotations, annotations)


@pytest.mark.parametrize("array", [np.zeros((4, 4)), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), np.uint8)])
def test_arrays_that_are_no_images(model: Model, array: np.ndarray) -> None:
    with pytest.raises(InputError, match=r"array 0: is .* Pass \(H, W, 3\) uint8 RGB arrays"):
        model([array])


def test_no_images(model: Model) -> None:
    with pytest.raises(InputError, match="no images"):
        model([])


def test_pycocotools_takes_the_results(model: Model, annotations: Path, tmp_path: Path) -> None:
    placl.predict(model, annotations).save(tmp_path / "results.json")
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(annotations))
        evaluation = COCOeval(truth, truth.loadRes(str(tmp_path / "results.json")), "keypoints")
        evaluation.params.kpt_oks_sigmas = np.full(3, 0.05)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    assert evaluation.stats[0] == pytest.approx(1.0)
    record = json.loads((tmp_path / "results.json").read_text())[0]
    assert list(record) == ["image_id", "category_id", "keypoints", "score", "bbox", "file_name"]
    assert record["score"] == pytest.approx(np.mean(record["keypoints"][2::3]), abs=1e-4)

"""Scores of a model that finds dots: on a file, and on the splits of its own run."""

import json
from pathlib import Path

import pytest

import placl
from dots import dot_config, write_dots
from placl import config as configuration
from placl.data.splits import Split
from placl.errors import InputError
from placl.watch import Silent


class Listener(Silent):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def edit(path: Path, change: str, value: object, which: int = 0) -> None:
    content = json.loads(path.read_text())
    content["annotations"][which][change] = value
    path.write_text(json.dumps(content))


def test_everything_is_found(run: Path, annotations: Path) -> None:
    score = placl.evaluate(run, annotations)
    assert (score.value, score.metric, score.instances, score.keypoints) == (100.0, "PCK@0.1", 6, 18)
    assert score.per_keypoint == {"left_red": 100.0, "green": 100.0, "right_blue": 100.0}


def test_a_label_in_the_wrong_place_costs_its_share(run: Path, annotations: Path) -> None:
    edit(annotations, "keypoints", [50, 50, 2, 0, 0, 0, 0, 0, 0])  # far from its red dot; two keypoints unlabelled
    score = placl.evaluate(placl.load(run), annotations)
    assert score.value == pytest.approx(100 * 15 / 16)
    assert score.per_keypoint["left_red"] == pytest.approx(100 * 5 / 6)


def test_instances_without_labels_do_not_count(run: Path, annotations: Path) -> None:
    edit(annotations, "keypoints", [])
    assert placl.evaluate(run, annotations).instances == 5


def test_other_metrics(run: Path, annotations: Path) -> None:
    assert placl.evaluate(run, annotations, metric="oks").metric == "OKS mAP"
    assert placl.evaluate(run, annotations, metric="oks").value == pytest.approx(100)
    strict = placl.evaluate(run, annotations, alpha=0.001)
    assert (strict.metric, strict.value) == ("PCK@0.001", 0.0)


def test_an_unknown_metric_names_the_nearest(run: Path, annotations: Path) -> None:
    with pytest.raises(InputError, match=r'"pkc" is not a value of reward\.metric\. Did you mean "pck"\?'):
        placl.evaluate(run, annotations, metric="pkc")


def test_keypoints_are_found_by_name_where_the_file_has_more(run: Path, annotations: Path) -> None:
    expected = placl.evaluate(run, annotations)
    content = json.loads(annotations.read_text())
    (category,) = content["categories"]
    category["keypoints"] = ["tail", *reversed([name.upper() for name in category["keypoints"]])]
    category |= {"skeleton": [], "flip_pairs": []}
    for annotation in content["annotations"]:
        points = [annotation["keypoints"][i : i + 3] for i in (6, 3, 0)]
        annotation["keypoints"] = sum(points, [1.0, 1.0, 2])
    annotations.write_text(json.dumps(content))
    assert placl.evaluate(run, annotations) == expected


def test_a_file_with_some_of_the_keypoints(run: Path, annotations: Path) -> None:
    content = json.loads(annotations.read_text())
    (category,) = content["categories"]
    category["keypoints"] = ["green", "tail"]
    category |= {"skeleton": [], "flip_pairs": []}
    for annotation in content["annotations"]:
        annotation["keypoints"] = [*annotation["keypoints"][3:6], 1.0, 1.0, 2]
    annotations.write_text(json.dumps(content))
    listener = Listener()
    score = placl.evaluate(run, annotations, watch=listener)
    assert (score.value, score.instances, score.keypoints) == (100.0, 6, 6)
    assert listener.lines == [
        f"{annotations}: scored on 1 of the model's 3 keypoints, 1 of its 2, found by name.",
    ]
    for annotation in content["annotations"]:
        annotation["keypoints"][2] = 0
    annotations.write_text(json.dumps(content))
    with pytest.raises(InputError, match="no instance has a label of one of the model's keypoints"):
        placl.evaluate(run, annotations)


def test_other_keypoints_are_refused_unless_renamed(run: Path, annotations: Path) -> None:
    content = json.loads(annotations.read_text())
    content["categories"][0]["keypoints"] = ["r", "g", "b"]
    annotations.write_text(json.dumps(content))
    with pytest.raises(InputError, match="its keypoints are not the model's: r, g, b against left_red"):
        placl.evaluate(run, annotations)
    assert placl.evaluate(run, annotations, keypoints=("left_red", "green", "right_blue")).value == 100


def test_no_label_at_all(run: Path, annotations: Path) -> None:
    for i in range(6):
        edit(annotations, "keypoints", [0] * 9, i)
    with pytest.raises(InputError, match="no labelled instance"):
        placl.evaluate(run, annotations)


def test_an_unreadable_labelled_image(run: Path, annotations: Path) -> None:
    (annotations.parent / "images" / "1.png").write_bytes(b"no image")
    with pytest.raises(InputError, match=r"1\.png: cannot be read as an image \(not a known image format\)"):
        placl.evaluate(run, annotations)


def test_a_model_without_a_run_needs_a_file(run: Path) -> None:
    with pytest.raises(InputError, match="name a COCO keypoint file"):
        placl.evaluate(run)
    with pytest.raises(InputError, match="name a COCO keypoint file"):
        placl.evaluate(placl.load(run))


def own_run(run: Path, annotations: Path, split: Split) -> Path:
    """The run as its training would have left it."""
    config = dot_config(
        **{"data.labeled": str(annotations), "data.cache": str(run.parent / "cache"), "execute.workers": 1}
    )
    (run / "config.yaml").write_text(configuration.dump(config))
    (run / "split.json").write_text(split.to_json())
    return run


def split(val: tuple[str, ...], test: tuple[str, ...]) -> Split:
    return Split(("images/0.png#1", "images/0.png#2"), (), (), val, test)


def test_the_run_s_own_test_split(run: Path, annotations: Path) -> None:
    edit(annotations, "keypoints", [110, 10, 2, 110, 10, 2, 110, 10, 2], 5)
    own_run(run, annotations, split(("images/1.png#3",), ("images/1.png#4", "images/2.png#6")))
    listener = Listener()
    score = placl.evaluate(run, watch=listener)
    assert score.instances == 2
    assert 50 <= score.value < 100  # instance 6 has three labels in one corner
    assert listener.lines == []


def test_the_validation_split_stands_in_and_that_is_said(run: Path, annotations: Path) -> None:
    own_run(run, annotations, split(("images/1.png#3",), ()))
    listener = Listener()
    assert placl.evaluate(run, watch=listener).instances == 1
    assert listener.lines == [
        f"{run}: has no test split. This is its validation split, by which it may have been chosen."
    ]


def test_data_that_are_gone(run: Path, annotations: Path) -> None:
    own_run(run, annotations, split(("images/1.png#3",), ()))
    annotations.unlink()
    with pytest.raises(InputError, match=r"annotations\.json: does not exist"):
        placl.evaluate(run)


def test_a_run_on_data_from_memory(run: Path) -> None:
    (run / "config.yaml").write_text(configuration.dump(dot_config()))
    (run / "split.json").write_text(split((), ("a#1",)).to_json())
    with pytest.raises(InputError, match=r"its data are not in files\. Name a labelled one"):
        placl.evaluate(run)


def test_only_the_split_that_is_named(run: Path, annotations: Path) -> None:
    content = json.loads(annotations.read_text())
    for image, split in zip(content["images"], ("train", "train", "test"), strict=True):
        image["split"] = split
    annotations.write_text(json.dumps(content))
    assert placl.evaluate(run, annotations).instances == 6
    assert placl.evaluate(run, annotations, split="test").instances == 2
    with pytest.raises(InputError, match=r'has no split "val"\. Known here: test, train\.'):
        placl.evaluate(run, annotations, split="val")


def test_what_the_run_was_trained_on_is_said(run: Path, annotations: Path) -> None:
    content = json.loads(annotations.read_text())
    names = {image["id"]: image["file_name"] for image in content["images"]}
    ids = tuple(f"{names[a['image_id']]}#{a['id']}" for a in content["annotations"])
    (run / "split.json").write_text(Split(ids[:2], ids[2:3], (), ids[3:4], ids[4:]).to_json())
    listener = Listener()
    placl.evaluate(run, annotations, watch=listener)
    assert listener.lines == ["3 of the 6 instances were in the run's training set: this is no test score."]


def test_images_of_a_folder_are_known_again_in_a_file(run: Path, annotations: Path, tmp_path: Path) -> None:
    """As copies under other names: ids of a folder and of a file are never the same."""
    content = json.loads(annotations.read_text())
    images = content["images"][:1]
    labels = [annotation for annotation in content["annotations"] if annotation["image_id"] == images[0]["id"]]
    first = annotations.with_name("first.json")
    first.write_text(json.dumps({**content, "images": images, "annotations": labels}))
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "other.png").write_bytes((annotations.parent / "images" / "1.png").read_bytes())
    config = dot_config(**{"data.labeled": str(first), "data.unlabeled": str(plain)})
    (run / "config.yaml").write_text(configuration.dump(config))
    (run / "split.json").write_text(Split(("images/0.png#1", "images/0.png#2"), ("other.png",), (), (), ()).to_json())
    listener = Listener()
    placl.evaluate(run, annotations, watch=listener)
    assert listener.lines == ["4 of the 6 instances were in the run's training set: this is no test score."]


def test_other_images_of_the_same_names_were_not_trained_on(run: Path, annotations: Path, tmp_path: Path) -> None:
    own_run(run, annotations, split((), ()))
    listener = Listener()
    placl.evaluate(run, write_dots(tmp_path / "others", seed=1), watch=listener)
    assert listener.lines == []


def test_images_that_are_gone_are_known_by_their_ids(run: Path, annotations: Path, tmp_path: Path) -> None:
    own_run(run, annotations, Split(("images/0.png#1", "images/0.png#2"), ("images/1.png#3",), (), (), ()))
    others = write_dots(tmp_path / "others", seed=1)
    edit(annotations, "keypoints", [], 2)
    edit(annotations, "keypoints", [], 3)  # images without a label may be missing
    (annotations.parent / "images" / "1.png").unlink()
    listener = Listener()
    placl.evaluate(run, others, watch=listener)
    assert listener.lines == ["1 of the 6 instances were in the run's training set: this is no test score."]

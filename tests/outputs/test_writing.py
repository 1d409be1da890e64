"""Predictions in files: which kind is meant, and COCO results and csv with the values that were found."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from outcomes import of_images, of_video
from placl.errors import InputError
from placl.outputs import writing
from placl.outputs.writing import settle, write_predictions


@pytest.mark.parametrize(
    ("path", "kind", "expected"),
    [
        (None, None, ("predictions.json", "coco")),
        (None, "sleap", ("predictions.slp", "sleap")),
        (None, "deeplabcut", ("predictions.csv", "deeplabcut")),
        ("a.csv", None, ("a.csv", "csv")),
        ("a.csv", "deeplabcut", ("a.csv", "deeplabcut")),
        ("a.H5", None, ("a.H5", "deeplabcut")),
        ("b/a.slp", None, ("b/a.slp", "sleap")),
        ("a.json", "coco", ("a.json", "coco")),
    ],
)
def test_the_name_and_the_kind_tell_each_other(path: str | None, kind: str | None, expected: tuple[str, str]) -> None:
    found, name = settle(None if path is None else Path(path), kind)
    assert (str(found), name) == (str(Path(expected[0])), expected[1])


@pytest.mark.parametrize(
    ("path", "kind", "words"),
    [
        ("a.txt", None, r"a\.txt: its suffix tells no format\. Known are \.json, \.csv, \.h5, \.hdf5, \.slp"),
        ("a", None, "a: its suffix tells no format"),
        ("a.json", "yolo", 'format "yolo" is unknown. Known are coco, csv, deeplabcut, sleap'),
        ("a.json", "deeplabcut", r"a\.json: a file of format deeplabcut is called \.csv or \.h5 or \.hdf5"),
        (".", None, "is a folder"),
    ],
)
def test_names_that_tell_nothing(path: str, kind: str | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        settle(Path(path), kind)


def test_h5_without_pandas_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "find_spec", lambda name: None if name == "tables" else True)
    with pytest.raises(InputError, match=r"a\.h5: needs pandas and tables: pip install 'placl\[h5\]'"):
        settle(Path("a.h5"), None)
    assert settle(Path("a.csv"), "deeplabcut")[1] == "deeplabcut"


def test_coco_results_of_a_video_name_their_frames(tmp_path: Path) -> None:
    found = of_video(tmp_path / "film.avi", [0, 2, 2])
    found.save(tmp_path / "p.json")
    records = json.loads((tmp_path / "p.json").read_text())
    assert records == found.to_coco()
    assert [(r["image_id"], r["frame_index"], r["file_name"]) for r in records] == [
        (0, 0, "film.avi#000000"),
        (2, 2, "film.avi#000002"),
        (2, 2, "film.avi#000002"),
    ]


def test_a_csv_has_a_row_an_instance(tmp_path: Path) -> None:
    found = of_video(tmp_path / 'a, "b" <é>.avi', [0, 2, 2])
    found.save(str(tmp_path / "p.csv"))
    table = pd.read_csv(tmp_path / "p.csv")
    assert table["frame"].tolist() == [0, 2, 2]
    assert set(table["image"]) == {'a, "b" <é>.avi'}
    for k, name in enumerate(found.skeleton.keypoints):
        np.testing.assert_allclose(table[[f"{name}_x", f"{name}_y"]], found.keypoints[:, k], atol=1e-3)
        np.testing.assert_allclose(table[f"{name}_confidence"], found.confidence[:, k], atol=1e-4)
    np.testing.assert_allclose(table[["x", "y", "width", "height"]], found.boxes, atol=1e-3)
    np.testing.assert_allclose(table["score"], found.scores, atol=1e-4)


def test_a_csv_of_images_has_their_names(tmp_path: Path) -> None:
    found = of_images(tmp_path, ["b.png", "a/c.png"])
    write_predictions(found, tmp_path / "p.csv")
    with open(tmp_path / "p.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:6] == ["image", "score", "x", "y", "width", "height"]
    assert [row["image"] for row in rows] == ["b.png", "a/c.png"]


def test_what_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = of_video(tmp_path / "film.avi", [0, 1])

    def interrupt(content: object) -> str:
        raise KeyboardInterrupt

    (tmp_path / "p.json").write_text("old")
    monkeypatch.setattr(json, "dumps", interrupt)
    with pytest.raises(KeyboardInterrupt):
        found.save(tmp_path / "p.json")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("p.json", "old")]

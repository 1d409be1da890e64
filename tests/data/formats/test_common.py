"""What readers share: image files under foreign names, and boxes where a format has none."""

from __future__ import annotations

import json
import ntpath
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placl.data.formats.common import (
    Leads,
    box_around,
    boxes_where_none_are,
    common_folder,
    drawn_boxes,
    find_image,
    load_json,
    require_image,
    shown,
    way_from,
)
from placl.errors import InputError


@pytest.mark.parametrize(
    "name", ["a/b.png", "a\\b.png", "/far/away/a/b.png", "C:\\data\\a\\b.png", "b.png", "images/a/b.png"]
)
def test_an_image_is_found_under_the_names_that_other_systems_gave_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "images" / "a").mkdir(parents=True)
    (tmp_path / "images" / "a" / "b.png").touch()
    found = find_image([tmp_path, tmp_path / "images" / "a"], name)
    assert found == tmp_path / "images" / "a" / "b.png"


def test_the_longest_part_of_a_name_counts(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "b.png").touch()
    (tmp_path / "b.png").touch()
    assert find_image([tmp_path], "/far/two/b.png") == tmp_path / "two" / "b.png"
    assert find_image([tmp_path], "/far/three/b.png") == tmp_path / "b.png"
    assert find_image([tmp_path], "c.png") is None


def test_the_way_from_the_folder_that_files_share(tmp_path: Path) -> None:
    files = [tmp_path / "a" / "b" / "1.png", tmp_path / "a" / "2.png"]
    folder = common_folder(files)
    assert folder == tmp_path / "a"
    assert [way_from(folder, file).as_posix() for file in files] == ["b/1.png", "2.png"]


def test_files_on_two_drives_share_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.commonpath", ntpath.commonpath)
    monkeypatch.setattr("os.path.abspath", str)
    monkeypatch.setattr("placl.data.formats.common.Path", PureWindowsPath)
    monkeypatch.setattr("os.path.dirname", ntpath.dirname)
    files = [PureWindowsPath("C:/photos/1.png"), PureWindowsPath("D:/photos/1.png")]
    assert common_folder(files) is None
    assert [way_from(None, file).as_posix() for file in files] == ["C/photos/1.png", "D/photos/1.png"]


def test_two_names_of_one_file_are_refused(tmp_path: Path) -> None:
    leads = Leads()
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for name in ("a.png", "./a.png", ".\\a.png", "x/../a.png"):  # one name, however it is spelt
        leads.add(tmp_path / "real" / "a.png", name, "file.csv")
    leads.add(tmp_path / "real" / "b.png", "b.png", "file.csv")
    assert tmp_path / "link" / "a.png" in leads
    assert tmp_path / "link" / "c.png" not in leads
    with pytest.raises(InputError) as caught:
        leads.add(tmp_path / "link" / "a.png", "link/a.png", "file.csv: line 7")
    assert str(caught.value) == (
        f'file.csv: line 7: "a.png" and "link/a.png" both lead to {tmp_path / "link" / "a.png"}. Pass --images DIR.'
    )


@given(seed=st.integers(0, 10_000), n=st.integers(1, 6), k=st.integers(1, 5))
def test_boxes_are_those_around_labelled_keypoints(seed: int, n: int, k: int) -> None:
    random = np.random.default_rng(seed)
    points = random.integers(-5, 5, (n, k, 2)).astype(np.float32)  # whole numbers: some coincide
    visibility = random.integers(0, 3, (n, k))
    boxes, drawn = drawn_boxes(points, visibility)
    for i in range(n):
        known = points[i][visibility[i] > 0]
        assert drawn[i] == (len(np.unique(known, axis=0)) > 1)
        np.testing.assert_array_equal(boxes[i], box_around(known) if drawn[i] else np.full(4, np.nan))


def test_one_animal_to_an_image_is_the_whole_image() -> None:
    points, visible = np.array([[[1, 2], [5, 9]]] * 3, np.float32), np.full((3, 2), 2)
    boxes, area, drawn = boxes_where_none_are(np.array([0, 1, 2]), points, visible)
    assert np.isnan(boxes).all()
    assert np.isnan(area).all()
    assert not drawn.any()
    boxes, area, drawn = boxes_where_none_are(np.array([0, 1, 1]), points, visible)
    assert boxes.tolist() == [[1, 2, 5, 8]] * 3
    assert area.tolist() == [40] * 3
    assert drawn.all()


def test_a_json_file_that_has_changed_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text("[1]")
    assert load_json(file) == [1]
    file.write_text("[1, 2]")
    assert load_json(file) == [1, 2]
    file.write_text("[1,")
    with pytest.raises(InputError, match=r"a\.json: is not JSON"):
        load_json(file)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.text(max_size=5), max_size=8))
def test_json_is_read_as_python_reads_it(tmp_path_factory: pytest.TempPathFactory, values: list[Any]) -> None:
    file = tmp_path_factory.mktemp("json") / "file.json"
    text = json.dumps({"values": values})
    file.write_text(text, encoding="utf-8")
    found = load_json(file)
    assert found == json.loads(text)
    assert [type(value) for value in found["values"]] == [type(value) for value in values]


def test_the_current_folder_is_named_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown(tmp_path) == str(tmp_path)
    with pytest.raises(InputError) as caught:
        require_image([Path(".")], "a.png", "file.csv: line 7")
    assert str(caught.value) == (
        'file.csv: line 7: image "a.png" does not exist under the current folder. Pass --images DIR.'
    )

"""DeepLabCut's h5 files, written by pandas itself: both layouts read as the csv does, and nothing is unpickled."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest

from placl.data.formats.deeplabcut import FORMAT, read_deeplabcut
from placl.data.formats.deeplabcut_h5 import _names_in_pickle
from placl.data.formats.format import Options
from placl.errors import InputError

NAN = float("nan")
NAMES = ["labeled-data/v/b.png", "labeled-data/v/a.png"]
SINGLE = ["snout", "tail"]
MULTI = ["mus1", "mus2"]


def frame(*, multi: bool = False, split: bool = False, dtype: str = "float64") -> Any:
    levels, titles = [["Ada"], SINGLE, ["x", "y"]], ["scorer", "bodyparts", "coords"]
    if multi:
        levels.insert(1, MULTI)
        titles.insert(1, "individuals")
    columns = pd.MultiIndex.from_product(levels, names=titles)
    index = pd.MultiIndex.from_tuples([tuple(name.split("/")) for name in NAMES]) if split else NAMES
    values = np.arange(2 * len(columns), dtype=float).reshape(2, -1) + 0.25
    values[1, :2] = NAN
    return pd.DataFrame(values, index=index, columns=columns).astype(dtype)


def write(folder: Path, data: Any, layout: str = "fixed", key: str = "df_with_missing") -> Path:
    video = folder / "labeled-data" / "v"
    video.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        (folder / name).touch()
    path = video / "CollectedData_Ada.h5"
    data.to_hdf(path, key=key, mode="w", format=layout)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_deeplabcut(path, Options())
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: ")
    return message


@pytest.mark.parametrize(
    ("layout", "multi", "split", "dtype"),
    [
        ("fixed", False, False, "float64"),
        ("fixed", False, True, "float64"),
        ("fixed", True, True, "float32"),
        ("table", False, False, "float64"),
        ("table", True, False, "float32"),
    ],
)
def test_reads_as_the_csv_does(tmp_path: Path, layout: str, multi: bool, split: bool, dtype: str) -> None:
    data = frame(multi=multi, split=split, dtype=dtype)
    path = write(tmp_path, data, layout)
    assert FORMAT.claims(path)
    assert FORMAT.claims(tmp_path)
    found = read_deeplabcut(tmp_path, Options()).instances
    data.to_csv(path.with_suffix(".csv"))
    path.write_bytes(b"not looked at while there is a csv")
    expected = read_deeplabcut(tmp_path, Options()).instances
    assert found.ids == expected.ids
    assert found.images == expected.images
    assert found.skeleton == expected.skeleton
    assert np.array_equal(found.keypoints, expected.keypoints)
    assert np.array_equal(found.visibility, expected.visibility)
    assert found.keypoints[0].tolist() == [[0.25, 1.25], [2.25, 3.25]]
    assert found.visibility.tolist() == [[2, 2]] * (1 + multi) + [[0, 2]] + [[2, 2]] * multi


def test_blocks_of_several_kinds(tmp_path: Path) -> None:
    data = frame()
    data["Ada", "tail", "x"] = np.array([7, 8])
    found = read_deeplabcut(write(tmp_path, data), Options()).instances
    assert found.keypoints[:, 1].tolist() == [[7, 3.25], [8, 7.25]]


def test_bodyparts_may_be_numbers(tmp_path: Path) -> None:
    data = frame()
    data.columns = pd.MultiIndex.from_product([["Ada"], [1, 2], ["x", "y"]])
    skeleton = read_deeplabcut(write(tmp_path, data), Options()).instances.skeleton
    assert skeleton is not None
    assert skeleton.keypoints == ("1", "2")


@pytest.mark.parametrize("layout", ["fixed", "table"])
def test_predictions_are_refused(tmp_path: Path, layout: str) -> None:
    columns = pd.MultiIndex.from_product([["Ada"], SINGLE, ["x", "y", "likelihood"]])
    data = pd.DataFrame(np.ones((2, 6)), index=NAMES, columns=columns)
    path = write(tmp_path, data, layout)
    assert FORMAT.claims(path)
    assert "holds predictions" in refusal(path)


@pytest.mark.filterwarnings("ignore")
def test_python_objects_are_refused(tmp_path: Path) -> None:
    data = frame().astype(object)
    data.iat[0, 0] = "far"
    assert "stored as Python objects" in refusal(write(tmp_path, data))


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, frame(), key="other")
    assert not FORMAT.claims(path)
    assert 'no "df_with_missing" in it' in refusal(path)
    whole = write(tmp_path, frame()).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert not FORMAT.claims(path)
    assert "is not an HDF5 file, or is cut off" in refusal(path)
    path.write_bytes(b"")
    assert "is not an HDF5 file" in refusal(path)


@pytest.mark.parametrize("node", ["axis1", "block0_values", "axis0_level1", "block0_items_label0"])
def test_missing_pieces_are_refused(tmp_path: Path, node: str) -> None:
    path = write(tmp_path, frame())
    with h5py.File(path, "r+") as file:
        del file["df_with_missing"][node]
    assert "is not laid out as DeepLabCut does" in refusal(path)


def test_a_pickle_that_acts_is_refused_and_does_not_act(tmp_path: Path) -> None:
    path = write(tmp_path, frame(), "table")

    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "caught"),)

    with h5py.File(path, "r+") as file:
        file["df_with_missing/table"].attrs["values_block_0_kind"] = np.bytes_(pickle.dumps([Trap()], 0))
    assert "stored as Python objects" in refusal(path)
    assert not (tmp_path / "caught").exists()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_names_in_a_pickle_of_any_protocol(protocol: int) -> None:
    names = [("me", part, axis) for part in ("nose", "Ohr\u00e4", "tail") for axis in "xy"]
    assert _names_in_pickle(pickle.dumps(names, protocol)) == names


@pytest.mark.parametrize("content", [{"a": 1}, ["x"], [("x", None)], [(b"x",)], "x", [("x", ["y"])]])
def test_other_pickles_are_refused(content: object) -> None:
    with pytest.raises(ValueError, match="its column names are"):
        _names_in_pickle(pickle.dumps(content, 0))

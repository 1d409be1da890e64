"""Predictions as DeepLabCut writes them, read back as DeepLabCut's users do: with pandas."""

from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

from outcomes import of_images, of_video
from placl.data.formats.deeplabcut_h5 import _frame, read_h5_table
from placl.data.formats.deeplabcut_table import read_csv_table
from placl.errors import InputError
from placl.outputs.deeplabcut import COORDS, deeplabcut_table
from placl.outputs.predictions import Predictions


def read(path: Path, levels: int = 3) -> pd.DataFrame:
    """As deeplabcut itself reads its files."""
    if path.suffix == ".csv":
        return pd.read_csv(path, header=list(range(levels)), index_col=0)
    return pd.DataFrame(pd.read_hdf(path))


def check(table: pd.DataFrame, found: Predictions, row: object, i: int, *individual: str) -> None:
    for k, name in enumerate(found.skeleton.keypoints):
        cells = [table.loc[row, ("placl", *individual, name, coordinate)] for coordinate in COORDS]
        np.testing.assert_allclose(cells, [*found.keypoints[i, k], found.confidence[i, k]], rtol=1e-6)


@pytest.mark.parametrize("suffix", [".csv", ".h5"])
def test_a_row_for_every_frame(tmp_path: Path, suffix: str) -> None:
    found = of_video(tmp_path / "film.avi", [0, 2, 3], length=5)
    found.save(tmp_path / f"p{suffix}", "deeplabcut")
    table = read(tmp_path / f"p{suffix}")
    assert table.columns.names == ["scorer", "bodyparts", "coords"]
    assert table.index.tolist() == [0, 1, 2, 3, 4]
    for i, frame in enumerate([0, 2, 3]):
        check(table, found, frame, i)
    assert table.loc[[1, 4]].isna().all(axis=None)
    assert [file.name for file in tmp_path.iterdir()] == [f"p{suffix}"]


@pytest.mark.parametrize("suffix", [".csv", ".h5"])
def test_a_row_for_every_image(tmp_path: Path, suffix: str) -> None:
    found = of_images(tmp_path, ["z é.png", "a/b.png"])
    found.save(tmp_path / f"p{suffix}", "deeplabcut")
    table = read(tmp_path / f"p{suffix}")
    assert table.index.tolist() == ["z é.png", "a/b.png"]
    check(table, found, "a/b.png", 1)


@pytest.mark.parametrize("suffix", [".csv", ".h5"])
def test_several_instances_are_individuals(tmp_path: Path, suffix: str) -> None:
    found = of_video(tmp_path / "film.avi", [0, 2, 2], length=3)
    found.save(tmp_path / f"p{suffix}", "deeplabcut")
    table = read(tmp_path / f"p{suffix}", levels=4)
    assert table.columns.names == ["scorer", "individuals", "bodyparts", "coords"]
    check(table, found, 0, 0, "individual1")
    check(table, found, 2, 1, "individual1")
    check(table, found, 2, 2, "individual2")
    assert table.loc[0].isna().tolist() == [False] * 9 + [True] * 9


def test_our_own_reader_sees_the_same_and_refuses_it_as_labels(tmp_path: Path) -> None:
    found = of_video(tmp_path / "film.avi", [0, 1, 3], length=4)
    found.save(tmp_path / "p.h5")
    found.save(tmp_path / "p.csv", "deeplabcut")
    with h5py.File(tmp_path / "p.h5") as file:
        columns, names, values = _frame(file)
    assert names == ["0", "1", "2", "3"]
    assert columns[:3] == [("placl", "left_red", coordinate) for coordinate in COORDS]
    np.testing.assert_array_equal(values, deeplabcut_table(found)[2].reshape(4, -1))
    for read_table, name in ((read_h5_table, "p.h5"), (read_csv_table, "p.csv")):
        with pytest.raises(InputError, match="holds predictions"):
            read_table(tmp_path / name)

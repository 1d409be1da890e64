"""Found by atheris: an .slp file with a few changed bytes on which the HDF5 library never came to an end."""

from __future__ import annotations

from pathlib import Path

import h5py
import pytest

import sane_files
from placl.data.formats.deeplabcut_h5 import is_pandas_h5, read_h5_table
from placl.data.formats.format import Options
from placl.data.formats.hdf5 import comes_to_an_end
from placl.data.formats.sleap import read_sleap
from placl.errors import InputError


def damaged(data: bytes) -> bytes:
    """The heap's first text is said to be longer than it is, and the library never finds the next."""
    size = data.index(b"GCOL") + 24
    return data[:size] + (4000).to_bytes(8, "little") + data[size + 8 :]


@pytest.fixture
def names(tmp_path: Path) -> Path:
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as content:
        content["below/names"] = ["left_eye", "tail"]
        content["number"] = 3
        content["below/again"] = content["below"]  # a circle
    return file


def test_a_sane_file(names: Path) -> None:
    assert comes_to_an_end(names)


def test_texts_without_end(names: Path) -> None:
    names.write_bytes(damaged(names.read_bytes()))
    assert not comes_to_an_end(names)


def test_what_is_no_such_file_is_for_others_to_say(tmp_path: Path) -> None:
    (tmp_path / "a.h5").write_text("snout, 3, 4")
    assert comes_to_an_end(tmp_path / "a.h5")
    assert comes_to_an_end(tmp_path / "missing.h5")


def test_sleap_refuses(tmp_path: Path) -> None:
    file = tmp_path / "labels.slp"
    file.write_bytes(damaged(sane_files.sleap(("a.jpg",))))
    with pytest.raises(InputError, match=r"labels\.slp: is damaged: reading it does not come to an end"):
        read_sleap(file, Options())


def test_deeplabcut_refuses(names: Path) -> None:
    names.write_bytes(damaged(names.read_bytes()))
    assert not is_pandas_h5(names)
    with pytest.raises(InputError, match=r"a\.h5: is damaged: reading it does not come to an end"):
        read_h5_table(names)

"""Packed pools: what is written comes back, and what is damaged is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from placl.data.formats.format import Options
from placl.data.packed import import_pool, read_pool, write_pool
from placl.data.pool import Pool
from placl.data.synthetic import write_animals
from placl.errors import InputError


def test_a_pool_comes_back(pool: Pool, tmp_path: Path) -> None:
    part = pool.take(np.array([5, 2, 9]))
    again = read_pool(write_pool(part, tmp_path / "packed"))
    assert isinstance(again.crops, np.memmap)
    np.testing.assert_array_equal(again.images(np.arange(3)), part.images(np.arange(3)))
    for name in ("keypoints", "visibility", "length", "area", "to_image", "image"):
        np.testing.assert_array_equal(getattr(again, name), getattr(part, name))
    assert (again.skeleton, again.ids, again.view, again.head) == (part.skeleton, part.ids, part.view, None)


@pytest.mark.parametrize("name", ["pool.json", "crops.npy", "keypoints.npy"])
def test_a_damaged_one_is_refused(pool: Pool, tmp_path: Path, name: str) -> None:
    folder = write_pool(pool, tmp_path / "packed")
    (folder / name).write_bytes(b"rubbish")
    with pytest.raises(InputError, match=r"packed: is not a packed pool"):
        read_pool(folder)


def test_importing_packs(tmp_path: Path) -> None:
    file = write_animals(tmp_path / "animals", 5, seed=3, size=48)
    done = import_pool(file, tmp_path / "packed", None, None, Options(), 32, False, workers=1)
    packed = read_pool(tmp_path / "packed")
    assert (done.format, len(packed), packed.view, packed.crop_size) == ("coco", 5, 32, 40)
    with pytest.raises(InputError, match="is there already"):
        import_pool(file, tmp_path / "packed", None, None, Options(), 32, False, workers=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["animals", "packed"]

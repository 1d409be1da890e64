"""Packed pools: what is written comes back, and what is damaged is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pictures import save
from placl.data.formats.format import Options
from placl.data.packed import import_pool, read_facts, read_pool, write_pool
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


def pack(source: Path, out: Path, protocol: str | None = None, overwrite: bool = True) -> None:
    import_pool(source, out, None, protocol, Options(), 32, overwrite, workers=1)


def test_who_trains_validates_and_tests_is_kept(cub_folder: Path, tmp_path: Path) -> None:
    done = import_pool(cub_folder, tmp_path / "packed", None, "cub", Options(), 32, False, workers=1)
    facts, packed = read_facts(tmp_path / "packed"), read_pool(tmp_path / "packed")
    assert dict(zip(packed.ids, facts["splits"], strict=True)) == {
        "001.Wren/1.jpg#1": "train",
        "100.Owl/2.jpg#2": "train",
        "101.Gull/3.jpg#3": "val",
        "200.Kite/4.jpg#4": "test",
    }
    assert facts["classes"] == ["001.Wren", "100.Owl", "101.Gull", "200.Kite"]
    assert facts["drawn"] == [False] * 4
    assert done.notes[-1] == "cub is scored by reward.metric=pck reward.alpha=0.1: add it to placl train."


def test_facts_go_with_the_instances_that_are_left(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    boxes = [[1, 1, 9, 9], None, [2, 2, 9, 9]]
    images = [{"id": i, "file_name": f"{i}.png", "split": f"s{i}"} for i in range(3)]
    points = [[5, 5, 2, 6, 6, 2], [6, 6, 2, 9, 8, 2], [0] * 6]
    labels = [
        {"id": i, "image_id": i, "category_id": i, "keypoints": points[i]} | ({"bbox": boxes[i]} if boxes[i] else {})
        for i in range(3)
    ]
    categories = [{"id": i, "name": f"c{i}", "keypoints": ["nose", "tail"]} for i in range(3)]
    save(tmp_path / "a" / "0.png")
    save(tmp_path / "a" / "1.png")
    (tmp_path / "a" / "2.png").write_bytes(b"no image")
    content = {"images": images, "annotations": labels[::-1], "categories": categories}
    (tmp_path / "a" / "labels.json").write_text(json.dumps(content))
    pack(tmp_path / "a", tmp_path / "packed")
    assert read_pool(tmp_path / "packed").ids == ("1.png#1", "0.png#0")
    facts = read_facts(tmp_path / "packed")
    assert facts == {"splits": ["s1", "s0"], "classes": ["c1", "c0"], "drawn": [True, False]}


def test_a_pool_without_facts_says_nothing(pool: Pool, tmp_path: Path) -> None:
    n = len(pool)
    expected = {"splits": [""] * n, "classes": [""] * n, "drawn": [False] * n}
    assert read_facts(write_pool(pool, tmp_path / "packed")) == expected
    with pytest.raises(InputError, match="is not a packed pool"):
        read_facts(tmp_path)
    (tmp_path / "packed" / "pool.json").write_text('{"ids": ["a"], "splits": 3}')
    with pytest.raises(InputError, match="is not a packed pool"):
        read_facts(tmp_path / "packed")


@pytest.fixture
def animals_file(tmp_path: Path) -> Path:
    return write_animals(tmp_path / "animals", 2, seed=3, size=48)


def test_a_pool_replaces_a_pool(animals_file: Path, tmp_path: Path) -> None:
    (tmp_path / "packed").mkdir()
    pack(animals_file, tmp_path / "packed", overwrite=False)  # an empty folder holds nothing to lose
    pack(animals_file, tmp_path / "packed")
    assert len(read_pool(tmp_path / "packed")) == 2


@pytest.mark.parametrize("names", [["thesis.tex"], ["pool.json", "thesis.tex"]])
def test_nothing_but_a_pool_is_replaced(animals_file: Path, tmp_path: Path, names: list[str]) -> None:
    (tmp_path / "packed").mkdir()
    for name in names:
        (tmp_path / "packed" / name).write_text("precious")
    with pytest.raises(
        InputError, match=r"packed: holds more than a packed pool \(thesis\.tex\)\. Name another folder"
    ):
        pack(animals_file, tmp_path / "packed")
    assert sorted(path.name for path in (tmp_path / "packed").iterdir()) == names


@pytest.mark.parametrize("out", ["animals", "."])
def test_the_source_is_not_replaced(animals_file: Path, tmp_path: Path, out: str) -> None:
    for source in (animals_file, animals_file.parent):
        with pytest.raises(InputError, match=r"is the source, or"):
            pack(source, tmp_path / out)
    assert len(list(animals_file.parent.rglob("*.jpg"))) == 2


def test_a_file_is_no_folder(animals_file: Path, tmp_path: Path) -> None:
    (tmp_path / "packed").touch()
    with pytest.raises(InputError, match=r"packed: is a file\. Name a folder with --out\."):
        pack(animals_file, tmp_path / "packed")


def test_facts_of_many_brackets_are_refused(tmp_path: Path) -> None:
    """Found by benchmarks/fuzz.py."""
    (tmp_path / "pool.json").write_text(100_000 * "[")
    with pytest.raises(InputError, match=r"pool\.json|packed pool"):
        read_pool(tmp_path)

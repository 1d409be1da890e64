"""Datasets in their official layout, of a few images each."""

from __future__ import annotations

from pathlib import Path

import pytest

from pictures import picture, save

PARTS = ("back", "left eye", "right eye")


@pytest.fixture
def cub_folder(tmp_path: Path) -> Path:
    """CUB_200_2011 with four images of species 1, 100, 101 and 200, and three parts."""
    root = tmp_path / "CUB_200_2011"
    species = {1: "001.Wren", 100: "100.Owl", 101: "101.Gull", 200: "200.Kite"}
    for number, name in enumerate(species.values(), start=1):
        (root / "images" / name).mkdir(parents=True)
        save(root / "images" / name / f"{number}.jpg", picture(seed=number))
    (root / "parts").mkdir()
    names = [f"{name}/{number}.jpg" for number, name in enumerate(species.values(), start=1)]
    lines = {
        "images.txt": [f"{i} {name}" for i, name in enumerate(names, start=1)],
        "classes.txt": [f"{i} {name}" for i, name in species.items()],
        "image_class_labels.txt": [f"{i} {number}" for i, number in enumerate(species, start=1)],
        "train_test_split.txt": [f"{i} {i % 2}" for i in range(1, 5)],
        "bounding_boxes.txt": [f"{i} 5.0 4.0 40.0 30.0" for i in range(1, 5)],
        "parts/parts.txt": [f"{i} {name}" for i, name in enumerate(PARTS, start=1)],
        "parts/part_locs.txt": [f"{i} {p} {10 * p}.0 {5 * p}.0 {int(p < 3)}" for i in range(1, 5) for p in (1, 2, 3)],
    }
    for name, content in lines.items():
        (root / name).write_text("\n".join(content) + "\n")
    return root

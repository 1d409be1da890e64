"""What the grids of benchmarks/ promise of each other."""

from __future__ import annotations

from pathlib import Path

from placl.studies.study import read_study


def test_animals_have_the_setting_that_birds_and_people_have(repository: Path) -> None:
    rows = {
        grid: {row.name: row for row in read_study(str(repository / "benchmarks" / f"{grid}.yaml")).rows}
        for grid in ("gap", "animals")
    }
    assert rows["animals"]["placl"] == rows["gap"]["placl"]

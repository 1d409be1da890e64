"""AnimalPose, all five classes together, 5 % of the labels, three seeds, at scale=cpu.

    python benchmarks/animals.py ../shared

Training, validation and test images are those of domains.py. It can be interrupted at any moment: the same command
carries on. What is finished stands in benchmarks/results/animals.csv and .md, and is not run again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from domains import COUNTS, divide
from study import carry_on, study_arguments, unpack, write_part

ROLES = ("labeled", "val", "test")  # of the parts in COUNTS


def prepare(shared: Path, folder: Path) -> Path:
    """A dataset file with all classes as one."""
    content = divide(unpack(shared / "data" / "animalpose.tar", folder / "animalpose"))
    for part, count in COUNTS.items():
        found = write_part(content, folder / "animalpose" / f"{part}.json", lambda image, p=part: image["split"] == p)
        assert found == count, f"{part}: {found} instances, expected {count}"
    file = folder / "animals.yaml"
    file.write_text("".join(f"{role}: animalpose/{part}.json\n" for role, part in zip(ROLES, COUNTS, strict=True)))
    return file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path, help="folder with data/animalpose.tar")
    arguments = study_arguments(parser)
    file = prepare(arguments.shared, arguments.out / "study-data")
    carry_on("animals.yaml", "animals", {"animals": file}, arguments)


if __name__ == "__main__":
    main()

"""The paper's numbers as data, against the paper's text."""

from __future__ import annotations

import csv
import re
from importlib import resources
from pathlib import Path

import pytest

from placl.studies.study import GRIDS

TABLES = {
    "table1": (r"\label{tab:all_results}", 4 * (4 * 5 + 3 * 4) + 5 + 4 + 4),
    "table3": (r"\label{tab:ablation}", 5),
    "table4": (r"\label{tab:model}", 12),
    "table5": (r"\label{tab:proxy}", 16),
    "table6": (r"\label{tab:full_mpii}", 13),
}
METHODS = {"supervised": "HRNet", "elt": "ELT", "gen": "Gen", "sskl": "SSKL", "pl": "PL", "cl": "CL", "placl": "PLACL"}
DATASETS = {"lspet": "LSPET", "mpii": "Dataset 2: MPII", "cub": "CUB-200-2011", "atrw": "ATRW", "coco": "MS-COCO", "mpii_full": "Full MPII"}  # fmt: skip  # noqa: E501
ABLATIONS = {
    "placl-no-cross": "w/o cross-training",
    "placl-fixed": "w/o curriculum",
    "placl-random": "Random Search",
    "placl-manual": "Manually Design",
    "placl": "full method",
}
TRANSFER = {
    "source_only": "AlphaPose Baseline",
    "domain_confusion": "Dom Confusion",
    "residual_transfer": "Residual Transfer",
    "cyclegan_pl": "CycleGAN+PL",
    "ws_cda_pplo": "WS-CDA+PPLO",
    "placl": "PLACL (Ours)",
}
FRACTIONS = (0.05, 0.1, 0.2, 0.5, 1.0)


def numbers(name: str) -> list[dict[str, str]]:
    text = resources.files("placl.studies").joinpath(f"paper/{name}.csv").read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


@pytest.fixture(scope="module")
def paper(shared: Path) -> str:
    (file,) = (shared / "paper").glob("*.txt")
    return file.read_text("utf-8")


def block(paper: str, label: str) -> str:
    place = paper.index(label)
    return paper[paper.rindex(r"\begin{table", 0, place) : paper.index(r"\end{table", place)]


@pytest.mark.realdata
@pytest.mark.parametrize("name", TABLES)
def test_as_many_numbers_as_the_table_has(paper: str, name: str) -> None:
    label, count = TABLES[name]
    found = re.findall(r"\d\d\.\d\d", re.sub(r"\$?\\pm\$?\s*[\d.]+", "", block(paper, label).replace("$\\pm$", "\\pm")))
    assert len(numbers(name)) == count == len(found)
    assert sorted(row["mean"] for row in numbers(name)) == sorted(found)


@pytest.mark.realdata
@pytest.mark.parametrize("name", ["table1", "table6"])
def test_every_number_is_that_of_its_row_and_column(paper: str, name: str) -> None:
    text = block(paper, TABLES[name][0])
    for row in numbers(name):
        part = text[text.index(DATASETS[row["dataset"]]) :]
        line = next(line for line in part.splitlines() if re.match(rf"\s*{METHODS[row['method']]}\W", line))
        cell = line.split("&")[1 + FRACTIONS.index(float(row["fraction"]))]
        assert re.findall(r"\d+\.\d+", cell) == [row["mean"], row["std"]]


@pytest.mark.realdata
def test_numbers_that_the_text_gives(paper: str) -> None:
    assert r"61.01\% PCK for $\gamma=0.0$ vs 67.35\% PCK for $\gamma=0.7$" in paper
    assert {row["method"]: row["mean"] for row in numbers("fig3b")} == {
        "fixed-0.0": "61.01", "fixed-0.7": "67.35", "placl": "70.76",
    }  # fmt: skip
    for row in numbers("table3"):
        words = ABLATIONS[row["method"]]
        (line,) = [line for line in block(paper, r"\label{tab:ablation}").splitlines() if words in line]
        assert row["mean"] in line


@pytest.mark.realdata
def test_table_2_is_that_of_the_paper(paper: str) -> None:
    text = block(paper, r"\label{tab:animaltoanimal}")
    (head,) = [line for line in text.splitlines() if line.strip().startswith("Method &")]
    targets = [cell.strip(" \\") for cell in head.split("&")[1:]]
    found = numbers("table2")
    assert len(found) == len(TRANSFER) * len(targets) == 30
    for row in found:
        (line,) = [line for line in text.splitlines() if line.strip().startswith(TRANSFER[row["method"]])]
        cell = line.split("&")[1 + targets.index(row["dataset"].removeprefix("animalpose_to_"))]
        assert re.findall(r"\d+\.\d+", cell) == [row["mean"]]


def test_every_file_belongs_to_a_study() -> None:
    folder = resources.files("placl.studies").joinpath("paper")
    assert {file.name.removesuffix(".csv") for file in folder.iterdir() if file.name.endswith(".csv")} <= set(GRIDS)

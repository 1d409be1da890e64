"""What a report finds in a run folder, whole, half, damaged or old."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from placl.errors import InputError
from placl.report.collecting import collect


def test_stages_with_all_that_is_known_of_them(finished: Path, told: dict[str, Any]) -> None:
    assert [stage["name"] for stage in told["stages"]] == ["round_0", "round_1", "round_2", "full"]
    assert [stage["yardstick"] for stage in told["stages"]] == [False, False, False, True]
    assert (told["finished"], told["best"], told["method"]) == (True, "round_2", "placl")
    assert told["counts"] == {"labelled": 16, "half_1": 12, "half_2": 12, "val": 10, "test": 10}
    first, second = told["stages"][:2]
    assert first["thresholds"] is None
    assert first["search"] == []
    assert second["thresholds"] == json.loads((finished / "round_1" / "curriculum.json").read_text())["thresholds"]
    assert len(second["search"]) == 4  # two steps of two
    assert {"reward", "reward_mean", "clip_fraction", "approx_kl"} <= set(second["search"][0])
    assert len(second["shares"]) == len(second["thresholds"]) == 2
    assert len(second["confidence"]["quantiles"]) == 201
    assert sum(bin["count"] for bin in second["reliability"]["bins"]) > 100
    assert set(second["per_keypoint"]) == set(told["gallery"]["keypoints"])


def test_the_gallery_has_every_networks_opinion(told: dict[str, Any]) -> None:
    gallery = told["gallery"]
    assert len(gallery["ids"]) == len(gallery["pictures"]) == 24
    assert gallery["halves"] == [1] * 12 + [2] * 12
    assert list(gallery["opinions"]) == ["round_0", "round_1", "round_2"]  # yardsticks label nothing
    opinion = gallery["opinions"]["round_1"]
    assert len(opinion["keypoints"]) == len(opinion["confidence"]) == 24
    assert all(len(row) == 14 for row in opinion["confidence"])
    assert gallery["pictures"][0].startswith("data:image/jpeg;base64,/9j/")


def test_whose_labels_scores_are_of(run: Path) -> None:
    assert collect(run)["domains"] == {}
    maps = {"dogs.json": {"Nose": "nose", "tail": "tail"}, "cats.json": {"nose": "nose"}}
    told = {"keypoints": ["nose", "tail"], "maps": maps, "unused": {"cats.json": ["ear"]}, "val_of": "source"}
    (run / "keypoints.json").write_text(json.dumps(told))
    assert collect(run)["domains"] == {
        "val": "source",
        "test": "target",
        "keypoints": [
            {"name": "dogs.json", "shared": 2, "unused": []},
            {"name": "cats.json", "shared": 1, "unused": ["ear"]},
        ],
    }
    (run / "keypoints.json").write_text(json.dumps({"maps": {"a": [], "b": {}}, "unused": {"b": 3}}))
    assert collect(run)["domains"] == {"val": "", "test": "target", "keypoints": []}


def test_half_a_run(run: Path) -> None:
    shutil.rmtree(run / "best")
    lines = (run / "results.csv").read_text().splitlines()
    (run / "results.csv").write_text("\n".join(lines[:2]) + "\n")
    for name in ("curriculum.json", "metrics.json"):
        (run / "round_1" / name).unlink()
    shutil.rmtree(run / "round_2")
    told = collect(run)
    assert not told["finished"]
    assert [stage["name"] for stage in told["stages"]] == ["round_0"]
    assert [stage["name"] for stage in told["searching"]] == ["round_1"]
    assert len(told["searching"][0]["search"]) == 4


def test_a_run_that_has_just_begun(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("method: placl\n")
    told = collect(tmp_path)
    assert (told["stages"], told["gallery"], told["health"]) == ([], {}, [])


def test_a_run_of_an_older_version_has_no_gallery(run: Path) -> None:
    shutil.rmtree(run / "gallery")
    for name in ("confidence.json", "reliability.json"):
        (run / "round_1" / name).unlink()
    (run / "round_1" / "curriculum.json").write_text('{"thresholds": [0.1, 0.2]}')
    told = collect(run)
    assert told["gallery"] == {}
    assert told["stages"][1]["thresholds"] == [0.1, 0.2]
    assert told["stages"][1]["shares"] is None


FILES = [
    "results.csv",
    "split.json",
    "config.yaml",
    "best/model.yaml",
    "gallery/instances.json",
    "gallery/round_1.json",
]


@pytest.mark.parametrize("name", [*FILES, "round_1/search.csv", "round_1/metrics.json", "round_1/reliability.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00", b"[1, 2]", b'{"ids": 3, "val": 7}', b"a,b\n1\n"])
def test_damaged_files_are_left_out(run: Path, name: str, content: bytes) -> None:
    (run / name).write_bytes(content)
    json.dumps(collect(run), allow_nan=False)


def test_nothing_outside_of_a_run_is_read(run: Path) -> None:
    (run.parent / "metrics.json").write_text('{"val": {"per_keypoint": {"secret": 1}}}')
    (run / "results.csv").write_text("stage,metric,val\n..,x,1\n../..,x,1\n")
    assert all(not stage["per_keypoint"] for stage in collect(run)["stages"])


def test_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere: no such run\. Name the folder that placl train wrote"):
        collect(tmp_path / "nowhere")
    with pytest.raises(InputError, match="is not a run folder"):
        collect(tmp_path)

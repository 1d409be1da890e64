"""The run folder: what it refuses, what it keeps, and that damaged weights count as none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import torch

from placl import config as configuration
from placl.config import Config
from placl.data.pool import Pool
from placl.data.splits import Split
from placl.errors import InputError
from placl.learn.network import fresh_network
from placl.learn.pseudo_labels import PseudoLabels
from placl.models.weights import weights_sha256
from placl.run.folder import RunFolder, read_config, read_split

MakeConfig = Callable[..., Config]


def test_a_new_folder_says_what_it_is(tiny: MakeConfig, tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "a" / "b", tiny())
    assert read_config(run.path) == tiny()
    environment = json.loads((run.path / "environment.json").read_text())
    assert environment["torch"] == torch.__version__
    assert read_split(tmp_path / "run") is None


def test_an_empty_folder_will_do(tiny: MakeConfig, tmp_path: Path) -> None:
    assert RunFolder(tmp_path, tiny()).path == tmp_path


def test_a_file_is_refused(tiny: MakeConfig, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(InputError, match=r"run: is a file\. Name a folder for the run with --out\."):
        RunFolder(tmp_path / "run", tiny())
    with pytest.raises(InputError, match=r"run is a file\. Name another folder"):
        RunFolder(tmp_path / "run" / "below", tiny())
    assert (tmp_path / "run").read_text() == "mine"


def test_a_foreign_folder_is_refused(tiny: MakeConfig, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match="is not empty and not a run"):
        RunFolder(tmp_path, tiny())
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_another_configuration_is_refused_by_its_keys(tiny: MakeConfig, tmp_path: Path) -> None:
    RunFolder(tmp_path / "run", tiny())
    with pytest.raises(InputError) as caught:
        RunFolder(tmp_path / "run", tiny({"train.lr": 0.5, "seed": 3}))
    lr = tiny().train.lr
    assert str(caught.value) == (
        f"{tmp_path / 'run'}: was made with another configuration, says its config.yaml "
        f"(seed: 0 -> 3; train.lr: {lr} -> 0.5). Use the same one to carry on, or another --out."
    )


def test_the_same_configuration_elsewhere_executed_carries_on(tiny: MakeConfig, tmp_path: Path) -> None:
    RunFolder(tmp_path / "run", tiny()).journal.add("k", "candidate", reward=1.0)
    again = RunFolder(tmp_path / "run", tiny({"execute.where": "pool", "execute.workers": 2}))
    assert again.journal.get("k") is not None


def test_a_damaged_configuration_is_named(tiny: MakeConfig, tmp_path: Path) -> None:
    RunFolder(tmp_path / "run", tiny())
    (tmp_path / "run" / "config.yaml").write_text("train: [")
    with pytest.raises(InputError, match=r"config\.yaml: is not valid YAML"):
        RunFolder(tmp_path / "run", tiny())
    with pytest.raises(InputError, match=r"is not a run folder \(it has no config\.yaml\)"):
        read_config(tmp_path)


def test_every_preset_comes_back_from_its_folder(tmp_path: Path) -> None:
    for name in configuration.PRESETS:
        config = configuration.load(None, {"preset": name, "data.labeled": "a.json"})
        RunFolder(tmp_path / name, config)
        RunFolder(tmp_path / name, config)  # not refused


def test_the_split_is_kept(tiny: MakeConfig, tmp_path: Path) -> None:
    split = Split(("a",), ("b",), (), ("c",), ())
    RunFolder(tmp_path / "run", tiny()).keep_split(split)
    assert read_split(tmp_path / "run") == split


def test_weights_are_given_out_only_if_they_are_what_the_journal_says(tiny: MakeConfig, tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run", tiny())
    net = fresh_network(tiny(), 14, 1, torch.device("cpu"))
    sha256 = run.keep_network("round_0", net)
    state = run.network_state("round_0", sha256)
    assert state is not None
    assert weights_sha256(state) == sha256 == weights_sha256(net)
    assert run.network_state("round_1", sha256) is None
    assert run.network_state("round_0", "0" * 64) is None
    file = run.path / "round_0" / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)  # one bit
    assert run.network_state("round_0", sha256) is None
    file.write_bytes(content[: len(content) // 2])
    assert run.network_state("round_0", sha256) is None
    file.write_bytes(b"")
    assert run.network_state("round_0", sha256) is None


def test_pseudo_labels_are_kept_in_image_pixels(tiny: MakeConfig, tmp_path: Path, pool: Pool) -> None:
    run = RunFolder(tmp_path / "run", tiny())
    two = pool.take(np.array([3, 4]))
    two.to_image[:] = [[2.0, 5.0, 7.0], [1.0, 0.0, 0.0]]
    confidence = np.arange(28, dtype=np.float32).reshape(2, 14) / 28
    run.keep_pseudo_labels("round_1", two, PseudoLabels(two.keypoints, confidence, "abc"))
    table = pyarrow.parquet.read_table(run.path / "round_1" / "pseudo_labels.parquet")
    assert table.schema.metadata[b"model_sha256"] == b"abc"
    rows = table.to_pylist()
    assert len(rows) == 28
    assert rows[1]["id"] == two.ids[0]
    assert rows[1]["keypoint"] == two.skeleton.keypoints[1]
    assert rows[1]["x"] == pytest.approx(2 * two.keypoints[0, 1, 0] + 5)
    assert rows[1]["y"] == pytest.approx(2 * two.keypoints[0, 1, 1] + 7)
    assert rows[15]["id"] == two.ids[1]
    assert rows[15]["confidence"] == pytest.approx(15 / 28)


def test_json_has_no_nan(tiny: MakeConfig, tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run", tiny())
    run.write_json("x/metrics.json", {"a": float("nan"), "b": [1.5, float("inf")], "c": {"d": None}, "e": (1, "x")})
    text = (run.path / "x" / "metrics.json").read_text()
    assert json.loads(text) == {"a": None, "b": [1.5, None], "c": {"d": None}, "e": [1, "x"]}
    assert "NaN" not in text


def test_a_file_is_made_once_and_again_where_it_was_changed(tiny: MakeConfig, tmp_path: Path) -> None:
    made: list[str] = []

    def write(file: Path) -> None:
        made.append(file.name)
        file.write_text("content")

    for damage in (None, "changed", "", None):
        if damage is not None:
            (tmp_path / "run" / "a.txt").write_text(damage)
        RunFolder(tmp_path / "run", tiny()).once("a.txt", "its source", write)
        assert (tmp_path / "run" / "a.txt").read_text() == "content"
    assert len(made) == 3  # at first, and after each change
    (tmp_path / "run" / "a.txt").unlink()
    RunFolder(tmp_path / "run", tiny()).once("a.txt", "its source", write)
    RunFolder(tmp_path / "run", tiny()).once("a.txt", "another source", write)
    assert len(made) == 5


@pytest.mark.parametrize("content", ["{", "[1]", '{"labelled": 3}', "\udcff"])
def test_a_damaged_split_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "split.json").write_text(content, errors="surrogateescape")
    with pytest.raises(InputError, match=r"split\.json: is damaged\. Delete it and run the same command again"):
        read_split(tmp_path)

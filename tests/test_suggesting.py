"""What to label next: ranks and choices by hand, and a whole run."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from placl.api import train
from placl.cli.main import main
from placl.config import Config
from placl.data.instances import plain_instances
from placl.data.load import Dataset
from placl.data.pool import Pool
from placl.errors import InputError
from placl.learn.pseudo_labels import PseudoLabels
from placl.run.folder import read_split
from placl.suggesting import Opinions, choose, ranked, ranks, suggest


@given(st.lists(st.integers(-5, 5), min_size=2, max_size=40))
def test_ranks_are_scipys(values: list[int]) -> None:
    expected = (rankdata(values, method="average") - 1) / (len(values) - 1)
    np.testing.assert_allclose(ranks(np.array(values, float)), expected)


def test_the_best_come_first_and_twins_do_not_come_twice() -> None:
    score = np.array([0.9, 0.89, 0.88, 0.5, 0.1])
    features = np.array([[0.0], [0.0], [10.0], [20.0], [99.0]])
    assert choose(score, features, 1).tolist() == [0]
    # Of all five, the most unlike 0 is 4, then whatever is farthest from both.
    assert choose(score, features, 3).tolist() == [0, 3, 4]


def test_only_the_shortlist_is_chosen_from() -> None:
    score = np.linspace(1, 0, 100)
    features = np.arange(100.0)[:, None]
    assert choose(score, features, 2).tolist() == [0, 9]


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 99))
def test_as_many_as_wanted_and_none_twice(n: int, count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    found = choose(random.random(n), random.integers(0, 3, (n, 2)), min(n, count))
    assert len(set(found.tolist())) == min(n, count)


@pytest.fixture(scope="module")
def begun(tiny: Callable[[dict[str, Any]], Config], dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("suggest") / "run"
    train(tiny({"data.label_fraction": 0.4, "rounds.finish": "last"}), out, dataset=dataset)
    return out


def test_a_run_names_unlabelled_instances(begun: Path, dataset: Dataset) -> None:
    split = read_split(begun)
    assert split is not None
    seen: list[tuple[int, int]] = []
    found = suggest(begun, 5, dataset, lambda done, total: seen.append((done, total)))
    assert len({one.id for one in found}) == 5
    assert {one.id for one in found} <= {*split.half_1, *split.half_2}
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert all(0 <= one.score <= 1 and 0 <= one.confidence <= 1 and one.disagreement >= 0 for one in found)
    assert seen[-1] == (72, 72)  # three networks, 24 instances
    assert len(suggest(begun, 1000, dataset)) == 24


def opinions(pool: Pool, *moved: float, config: Config) -> Opinions:
    """Of networks that differ by so many pixels about the last instance, and agree about the others."""
    keypoints = np.zeros((len(pool), 14, 2), np.float32)
    each = []
    for x in moved:
        keypoints = keypoints.copy()
        keypoints[-1, :, 0] = x
        each.append(PseudoLabels(keypoints, np.full((len(pool), 14), 0.5, np.float32), "m"))
    return Opinions(pool, tuple(each), config)


def test_disagreement_is_the_mean_over_pairs_of_networks(pool: Pool, tiny: Callable[..., Config]) -> None:
    some = opinions(pool.take(np.arange(5)), 0, 16, 32, config=tiny())  # fields of view have 32 pixels
    assert some.disagreement.tolist() == [0, 0, 0, 0, pytest.approx((0.5 + 1 + 0.5) / 3)]
    found = ranked(some, 1)[0]
    assert (found.id, found.confidence) == (pool.ids[4], 0.5)  # all are as unsure: what differs is what they say


def test_one_network_has_nobody_to_disagree_with(pool: Pool, tiny: Callable[..., Config]) -> None:
    some = opinions(pool.take(np.arange(5)), 0, config=tiny())
    assert [one.disagreement for one in ranked(some, 5)] == [0] * 5


def test_what_was_reviewed_is_not_suggested(pool: Pool, tiny: Callable[..., Config]) -> None:
    some = opinions(pool.take(np.arange(5)), 0, 9, config=tiny())
    assert {one.id for one in ranked(some, 9, besides=pool.ids[3:])} == set(pool.ids[:3])
    assert ranked(some, 9, besides=pool.ids) == []


def test_hidden_labels_change_nothing(begun: Path, dataset: Dataset) -> None:
    split = read_split(begun)
    assert split is not None
    hidden = np.isin(dataset.pool.ids, [*split.half_1, *split.half_2])
    keypoints = np.where(hidden[:, None, None], 7.0, dataset.pool.keypoints).astype(np.float32)
    other = replace(dataset, pool=replace(dataset.pool, keypoints=keypoints))
    assert suggest(begun, 5, other) == suggest(begun, 5, dataset)


def test_a_run_without_a_network(begun: Path, dataset: Dataset, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text((begun / "config.yaml").read_text())
    with pytest.raises(InputError, match="has no finished network yet"):
        suggest(tmp_path, 5, dataset)


@pytest.fixture
def in_files(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``in_files(boxes)``: instances lie in two folders, as boxes of four such numbers; NaN: as whole images."""

    def read(boxes: float) -> None:
        n = len(dataset.pool)
        files = tuple(Path(f"folder_{i % 2}") / f"{i // 2}.png" for i in range(n))
        found = plain_instances(files, dataset.pool.ids, np.arange(n), np.full((n, 4), boxes), np.ones(n, np.float32))
        monkeypatch.setattr("placl.suggesting.load_dataset", lambda *_, **__: dataset)
        monkeypatch.setattr("placl.suggesting.read_instances", lambda _: (found, None, []))

    return read


def test_the_command(call: Callable[..., str], begun: Path, in_files: Callable[..., None], tmp_path: Path) -> None:
    in_files(np.nan)
    ended = call("suggest", begun, "-n", "3", "--json", "--out", tmp_path / "next.csv")
    rows = json.loads(ended)["suggestions"]
    assert [row["id"] for row in rows] == [one.id for one in suggest(begun, 3)]
    assert list(rows[0]) == ["id", "image", "score", "confidence", "disagreement"]
    with open(tmp_path / "next.csv", newline="") as file:
        assert list(csv.DictReader(file)) == [{key: str(value) for key, value in row.items()} for row in rows]


def test_the_image_of_each_is_named(
    call: Callable[..., str], begun: Path, dataset: Dataset, in_files: Callable[..., None]
) -> None:
    in_files(np.nan)
    (first,) = suggest(begun, 1)
    place = dataset.pool.ids.index(first.id)
    assert (first.image, first.box) == (Path(f"folder_{place % 2}/{place // 2}.png"), None)
    assert str(first.image) in call("suggest", begun, "-n", "1")


def test_the_box_is_named_where_instances_have_one(
    call: Callable[..., str], begun: Path, in_files: Callable[..., None], tmp_path: Path
) -> None:
    in_files(12.5)
    assert suggest(begun, 1)[0].box == (12.5, 12.5, 12.5, 12.5)
    assert "12.5, 12.5, 12.5, 12.5" in call("suggest", begun, "-n", "1", "--out", tmp_path / "next.csv")
    with open(tmp_path / "next.csv", newline="") as file:
        (row,) = csv.DictReader(file)
    assert [row[column] for column in ("x", "y", "width", "height")] == ["12.5"] * 4


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def run(*arguments: object) -> str:
        assert main([str(argument) for argument in arguments]) == 0
        return capsys.readouterr().out

    return run

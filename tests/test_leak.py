"""No leak: labels of unlabelled and test instances are out of reach, whatever they say."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from placl.api import train
from placl.config import Config
from placl.data.corrections import Correction
from placl.data.load import Dataset
from placl.data.pool import Pool
from placl.data.splits import Split
from placl.data.synthetic import write_animals
from placl.errors import InputError
from placl.models.weights import read_state, weights_sha256

MakeConfig = Callable[..., Config]
SETTINGS = {"data.label_fraction": 0.4, "search.steps": 2, "search.samples": 2}


@dataclass(frozen=True)
class Facts:
    """All that a run has learned: every network's weights, and every candidate's reward."""

    weights: tuple[str, ...]
    best: str
    rewards: tuple[float, ...]
    test: tuple[float, ...]
    split: Split


def facts_of(config: Config, out: Path, dataset: Dataset | None = None) -> Facts:
    result = train(config, out, dataset=dataset)
    units = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    return Facts(
        weights=tuple(row["weights_sha256"] for row in result.rows),
        best=weights_sha256(read_state(out / "best" / "model.safetensors")),
        rewards=tuple(unit["outcome"]["reward"] for unit in units if unit["kind"] == "candidate"),
        test=tuple(row["test"] for row in result.rows),
        split=Split.from_json((out / "split.json").read_text()),
    )


def scrambled(pool: Pool, ids: set[str]) -> Pool:
    """The pool with random numbers for every keypoint, visibility, length and area of the given instances."""
    random = np.random.default_rng(99)
    there = np.array([name in ids for name in pool.ids])
    count, k = int(there.sum()), len(pool.skeleton)
    changes = {
        "keypoints": random.uniform(-50, 50, (count, k, 2)),
        "visibility": random.integers(0, 3, (count, k)),
        "length": random.uniform(1, 100, count),
        "area": random.uniform(1, 100, count),
    }
    arrays = {name: getattr(pool, name).copy() for name in changes}
    for name, values in changes.items():
        arrays[name][there] = values
    return replace(pool, **arrays)


@pytest.fixture(scope="module")
def reference(tiny: MakeConfig, dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Facts:
    return facts_of(tiny(SETTINGS), tmp_path_factory.mktemp("reference") / "run", dataset)


def test_random_labels_of_unlabelled_and_test_instances_change_no_bit(
    tiny: MakeConfig, dataset: Dataset, reference: Facts, tmp_path: Path
) -> None:
    split = reference.split
    secret = {*split.half_1, *split.half_2, *split.test}
    assert len(secret) == 24 + 10
    found = facts_of(tiny(SETTINGS), tmp_path / "run", replace(dataset, pool=scrambled(dataset.pool, secret)))
    assert len(found.weights) == 4  # rounds 0, 1, 2 and the finish
    assert found.weights == reference.weights
    assert found.best == reference.best
    assert found.rewards == reference.rewards
    assert len(found.rewards) == 2 * 2 * 2
    assert found.split == reference.split
    assert found.test != reference.test  # the exam itself is another one


def test_one_keypoint_of_one_labelled_instance_changes_every_network(
    tiny: MakeConfig, dataset: Dataset, reference: Facts, tmp_path: Path
) -> None:
    pool = dataset.pool
    keypoints = pool.keypoints.copy()
    place = pool.ids.index(reference.split.labelled[0])
    visible = int(np.flatnonzero(pool.visibility[place])[0])
    keypoints[place, visible] += 1
    found = facts_of(tiny(SETTINGS), tmp_path / "run", replace(dataset, pool=replace(pool, keypoints=keypoints)))
    assert not set(found.weights) & set(reference.weights)


def test_validation_labels_reach_the_rewards_and_the_first_network_not(
    tiny: MakeConfig, dataset: Dataset, reference: Facts, tmp_path: Path
) -> None:
    changed = scrambled(dataset.pool, set(reference.split.val))
    found = facts_of(tiny(SETTINGS), tmp_path / "run", replace(dataset, pool=changed))
    assert found.weights[0] == reference.weights[0]
    assert found.rewards != reference.rewards


def test_corrections_reach_training_instances_and_leave_every_role_of_the_others(
    tiny: MakeConfig, dataset: Dataset, reference: Facts, tmp_path: Path
) -> None:
    split = reference.split
    said = {id_: Correction(id_, "accepted", ((9.0, 9.0),) * 14, (2,) * 14, "", None) for id_ in split.half_1[:2]}
    found = facts_of(tiny(SETTINGS), tmp_path / "run", replace(dataset, corrections=said))
    assert found.split.labelled == split.labelled + split.half_1[:2]
    assert found.split.half_1 == split.half_1[2:]
    assert (found.split.half_2, found.split.val, found.split.test) == (split.half_2, split.val, split.test)
    assert not set(found.weights) & set(reference.weights)


@pytest.mark.parametrize("role", ["val", "test"])
def test_corrections_of_what_is_scored_on_are_refused(
    tiny: MakeConfig, dataset: Dataset, reference: Facts, tmp_path: Path, role: str
) -> None:
    id_ = getattr(reference.split, role)[0]
    said = {id_: Correction(id_, "accepted", ((9.0, 9.0),) * 14, (2,) * 14, "", None)}
    with pytest.raises(InputError, match=f"which is a {role} instance"):
        train(tiny(SETTINGS), tmp_path / "run", dataset=replace(dataset, corrections=said))
    assert not (tmp_path / "run").exists()


# --- across domains: labels of the target, in the files that training itself reads


def target_file(folder: Path, secret: set[str]) -> Path:
    """12 animals to train on, 6 that validate and 6 that test; the labels of secret parts are random numbers."""
    content = json.loads(write_animals(folder, 24, seed=1, size=48).read_text())
    random = np.random.default_rng(7)
    for i, (image, annotation) in enumerate(zip(content["images"], content["annotations"], strict=True)):
        image["split"] = "train" if i < 12 else "val" if i < 18 else "test"
        if image["split"] in secret:
            x, y = random.uniform(0, 48, (2, 14))
            annotation["keypoints"] = np.stack([x, y, random.integers(0, 3, 14)], axis=1).ravel().tolist()
    content["categories"][0]["keypoints"] = [name.upper() for name in content["categories"][0]["keypoints"]]
    file = folder / "annotations.json"
    file.write_text(json.dumps(content))
    return file


@pytest.fixture(scope="module")
def across(tiny: MakeConfig, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Facts]:
    """``across("train", "test")``: a training whose target has nonsense for labels in these parts."""
    source = write_animals(tmp_path_factory.mktemp("source"), 20, seed=0, size=48)

    def run(*secret: str, val_from: str = "target") -> Facts:
        folder = tmp_path_factory.mktemp("target")
        given = {"source": str(source), "target": str(target_file(folder, set(secret))), "data.val_from": val_from}
        settings = {"data.ignore_target_labels": True, "data.cache": str(folder / "cache"), "rounds.count": 1}
        return facts_of(tiny({**given, **settings, "search.steps": 1}), folder / "run")

    return run


@pytest.fixture(scope="module")
def domains(across: Callable[..., Facts]) -> Facts:
    return across()


def test_labels_of_the_targets_training_and_test_images_change_no_bit(
    across: Callable[..., Facts], domains: Facts
) -> None:
    found = across("train", "test")
    assert len(found.weights) == 3  # rounds 0 and 1 and the finish
    assert (found.weights, found.best, found.rewards) == (domains.weights, domains.best, domains.rewards)
    assert found.split == domains.split
    assert [len(ids) for ids in found.split.roles().values()] == [20, 6, 6, 6, 6]
    assert found.test != domains.test


def test_labels_of_the_targets_validation_images_reach_the_rewards_alone(
    across: Callable[..., Facts], domains: Facts
) -> None:
    found = across("val")
    assert found.weights[0] == domains.weights[0]
    assert found.rewards != domains.rewards
    assert found.test[0] == domains.test[0]


def test_where_the_source_validates_no_label_of_the_target_changes_a_bit(across: Callable[..., Facts]) -> None:
    one, other = across(val_from="source"), across("train", "val", "test", val_from="source")
    assert (one.weights, one.best, one.rewards, one.split) == (other.weights, other.best, other.rewards, other.split)
    assert [len(ids) for ids in one.split.roles().values()] == [16, 6, 6, 4, 6]
    assert one.test != other.test

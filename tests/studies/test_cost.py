"""What a study will cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placl import studies
from placl.config import load
from placl.errors import InputError
from placl.studies import cost

TRAINING = 2 * 2 * 8  # images


def test_a_network_that_runs_have_in_common_is_counted_once(
    study_file: Path, animals_file: Path, small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "seconds_per_image", lambda config: 1.0)
    narrow = {"rows": ["supervised", "pl", "mine"], "fractions": [0.3], "seeds": [0, 1]}
    _, specs = studies.plan_study(
        str(study_file), {"animals": animals_file}, tmp_path / "out", overrides=small, **narrow
    )
    hours = cost.hours(specs, studies.Results(specs))
    images = [round(hours[spec] * 3600 / cost.AROUND) for spec in specs]
    # Supervised, pl without its first network, and five candidates, of which one is the round's; each for two seeds.
    assert images == [TRAINING] * 2 + [TRAINING] * 2 + [5 * TRAINING] * 2
    alone = [spec for spec in specs if spec.method == "pl"]
    assert [round(h * 3600 / cost.AROUND) for h in cost.hours(alone, studies.Results(alone)).values()] == [
        2 * TRAINING
    ] * 2


def test_methods_without_a_first_network_share_none(
    study_file: Path, animals_file: Path, small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "seconds_per_image", lambda config: 1.0)
    study_file.write_text("title: x\ndatasets: [animals]\nfractions: [0.3]\nseeds: [0]\nrows: [elt, gen]")
    _, specs = studies.plan_study(str(study_file), {"animals": animals_file}, tmp_path / "out", overrides=small)
    hours = cost.hours(specs, studies.Results(specs))
    expected = [TRAINING * cost.RELATIVE[spec.method] * cost.AROUND / 3600 for spec in specs]
    assert list(hours.values()) == pytest.approx(expected)


def test_a_network_that_does_not_take_its_input_is_refused_before_it_is_timed(
    study_file: Path, animals_file: Path, small: dict[str, Any], tmp_path: Path
) -> None:
    overrides = {**small, "model.name": "hrnet_w32", "model.width": 1.0, "model.input_size": 48}
    _, specs = studies.plan_study(str(study_file), {"animals": animals_file}, tmp_path / "out", overrides=overrides)
    with pytest.raises(InputError, match=r"model\.input_size=48: hrnet_w32 does not take it\. Try 64"):
        cost.hours(specs, studies.Results(specs))


def test_images_of_a_search() -> None:
    full = {"train.epoch": "steps", "train.epochs": 20, "train.steps_per_epoch": 10, "train.batch": 8}
    proxy = {"proxy.epochs": 20, "proxy.steps_per_epoch": 2, "search.steps": 3, "search.samples": 4}
    proxy["search.searcher"] = "ppo2"
    config = load(None, {**full, **proxy, "rounds.count": 2, "rounds.finish": "both"})
    assert cost.search_images_of(config) == 2 * 3 * 4 * (20 * 2 * 8)
    assert cost.search_images_of(load(None, {**full, **proxy, "search.searcher": "constant"})) == 0
    assert cost.search_images_of(load(None, {**full, **proxy, "method": "pl"})) == 0

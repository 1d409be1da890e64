"""Checkpoints: whenever a training is interrupted, what comes out is what would have come out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from placl import stopping
from placl.config import Config
from placl.curriculum.curriculum import Curriculum
from placl.data.splits import Problem
from placl.learn.checkpoint import Checkpoint, Progress
from placl.learn.course import TrainingSet
from placl.learn.inner_loop import Trained, inner_loop
from placl.methods.consistency import train_consistently
from placl.methods.cyclegan_pl import Translated
from placl.methods.domain_confusion import DomainConfusion
from placl.methods.gen import Gen
from placl.methods.mean_teacher import MeanTeacher
from placl.methods.posedual import PoseDual
from placl.methods.residual_transfer import ResidualTransfer
from placl.methods.ws_cda_pplo import WsCdaPplo
from placl.models.weights import weights_sha256

MakeConfig = Callable[..., Config]
CURRICULUM = Curriculum((0.5, 0.1))
LENGTH = {"train.epochs": 3, "train.steps_per_epoch": 3}


class PowerCutError(Exception):
    pass


@dataclass(frozen=True)
class Cut(Checkpoint):
    """The power fails after so many checkpoints."""

    after: int = 1

    def write(self, state: dict[str, Tensor]) -> None:
        super().write(state)
        if int(state["position"][0]) * 3 + int(state["position"][1]) == self.after:
            raise PowerCutError


@dataclass
class Numbers:
    generator: torch.Generator

    def skip_to(self, epoch: int, step: int) -> None:
        pass


def facts(trained: Trained) -> tuple[Any, ...]:
    return weights_sha256(trained.net), trained.images, trained.selected, trained.diverged


@pytest.mark.parametrize("step", range(1, 10))
def test_interrupted_after_any_step_it_ends_in_the_same_bits(
    tiny: MakeConfig, data: TrainingSet, tmp_path: Path, step: int
) -> None:
    config = tiny(LENGTH)
    losses: dict[str, list[float]] = {"whole": [], "again": []}
    whole = inner_loop(config, data, CURRICULUM, 1, on_epoch=lambda *told: losses["whole"].append(told[2]))
    place = {"file": tmp_path / "c.safetensors", "key": "k", "every": 0.0}
    with pytest.raises(PowerCutError):
        inner_loop(config, data, CURRICULUM, 1, checkpoint=Cut(**place, after=step))
    again = inner_loop(
        config, data, CURRICULUM, 1, checkpoint=Checkpoint(**place), on_epoch=lambda *t: losses["again"].append(t[2])
    )
    assert facts(again) == facts(whole)
    assert losses["again"] == losses["whole"][(step - 1) // 3 :]  # the epoch that it was in, and all after it


@pytest.mark.parametrize(
    "settings",
    [
        {"train.epoch": "data"},
        {"train.labelled_share": None, "train.optimizer": "adam"},
        {"train.optimizer": "muon"},
        {"select.level": "instance", "train.precision": "bfloat16"},
    ],
)
def test_whatever_the_settings(tiny: MakeConfig, data: TrainingSet, tmp_path: Path, settings: dict[str, Any]) -> None:
    config = tiny({**LENGTH, **settings})
    place = {"file": tmp_path / "c.safetensors", "key": "k", "every": 0.0}
    with pytest.raises(PowerCutError):
        inner_loop(config, data, CURRICULUM, 1, checkpoint=Cut(**place, after=5))
    again = inner_loop(config, data, CURRICULUM, 1, checkpoint=Checkpoint(**place))
    assert facts(again) == facts(inner_loop(config, data, CURRICULUM, 1))


@pytest.mark.parametrize(
    ("term", "step"),
    [
        *((term, step) for term in (MeanTeacher, PoseDual, Gen) for step in (1, 5, 6)),
        (DomainConfusion, 5),
        (ResidualTransfer, 5),
        (Translated, 5),
        *((WsCdaPplo, step) for step in (5, 6, 7, 8)),  # pseudo-labels are made after 6
    ],
)
def test_consistency_methods_too(tiny: MakeConfig, problem: Problem, tmp_path: Path, term: Any, step: int) -> None:
    config, data = tiny(LENGTH), TrainingSet(problem.labelled, problem.unlabelled)
    place = {"file": tmp_path / "c.safetensors", "key": "k", "every": 0.0}
    with pytest.raises(PowerCutError):
        train_consistently(config, data, term, 5, threads=1, checkpoint=Cut(**place, after=step))
    again = train_consistently(config, data, term, 5, threads=1, checkpoint=Checkpoint(**place))
    assert facts(again) == facts(train_consistently(config, data, term, 5, threads=1))


def test_asked_to_stop_it_keeps_how_far_it_is(tiny: MakeConfig, data: TrainingSet, tmp_path: Path) -> None:
    config, place = tiny(LENGTH), Checkpoint(tmp_path / "c.safetensors", "k")
    with pytest.raises(stopping.Stopped):
        inner_loop(config, data, CURRICULUM, 1, checkpoint=place, on_epoch=lambda *_: stopping.ask())
    kept = place.read()
    assert kept is not None
    assert kept["position"].tolist() == [1, 1, 4 * config.train.batch]
    assert not stopping.asked()  # whoever hears of it need not
    again = inner_loop(config, data, CURRICULUM, 1, checkpoint=place)
    assert facts(again) == facts(inner_loop(config, data, CURRICULUM, 1))
    assert again.earlier > 0


def test_other_ranks_keep_their_own_random_numbers(tmp_path: Path) -> None:
    source = Numbers(torch.Generator().manual_seed(1))
    net = torch.nn.Linear(2, 1)
    rate = torch.optim.Adam(net.parameters())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        Progress(Checkpoint(tmp_path / "c", "k", every=0.0), net, rate, source).add(torch.zeros(()), 4)
        drawn = {}
        for writes in (True, False):
            torch.manual_seed(6)
            source.generator.manual_seed(2)
            progress = Progress(Checkpoint(tmp_path / "c", "k", writes=writes), net, rate, source)
            assert (progress.step, progress.seen) == (1, 4)
            assert source.generator.initial_seed() == 1  # images are drawn alike
            drawn[writes] = torch.rand(1).item()
        assert drawn[True] == torch.rand(1, generator=torch.Generator().manual_seed(5)).item()
        assert drawn[False] == torch.rand(1, generator=torch.Generator().manual_seed(6)).item()


def test_not_more_often_than_it_is_worth(tiny: MakeConfig, data: TrainingSet, tmp_path: Path) -> None:
    place = Checkpoint(tmp_path / "c.safetensors", "k")
    assert place.every == 120
    inner_loop(tiny(LENGTH), data, CURRICULUM, 1, checkpoint=place)
    assert not place.file.exists()


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "another", "gone"])
def test_what_cannot_be_trusted_counts_as_none(tmp_path: Path, damage: str) -> None:
    place = Checkpoint(tmp_path / "c.safetensors", "k")
    place.write({"a": torch.arange(50.0), "b": torch.zeros((), dtype=torch.int64)})
    assert place.read() is not None
    content = bytearray(place.file.read_bytes())
    content[-20] ^= 1
    changed = {"truncated": content[:-9], "flipped": content, "empty": b""}
    if damage in changed:
        place.file.write_bytes(bytes(changed[damage]))
    if damage == "gone":
        place.remove()
    assert (Checkpoint(place.file, "other") if damage == "another" else place).read() is None


def test_where_the_folder_is_not_nothing_is_kept(tmp_path: Path) -> None:
    place = Checkpoint(tmp_path / "of another node" / "c.safetensors", "k")
    place.write({"a": torch.zeros(1)})
    assert not place.file.parent.exists()

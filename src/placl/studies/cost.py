"""What the runs of a study will cost, before they are run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import torch

from placl.api import check_networks
from placl.config import Config
from placl.lab import candidates
from placl.learn.device import pick_device, thread_count
from placl.learn.inner_loop import make_optimizer
from placl.learn.network import fresh_network
from placl.methods.method import method_of
from placl.rounds import found_by_search
from placl.stages import FIRST
from placl.studies.results import Results
from placl.studies.study import RunSpec

# Seconds of a step over those of a supervised one (`tiny`, 64 px, batch 16, one core).
RELATIVE = {
    "elt": 2.1,
    "gen": 2.5,
    "sskl": 2.3,
    "posecons": 2.1,
    "posedual": 4.2,
    "multiaugs": 4.2,
    "mean_teacher": 2.5,
    # At 48 px in batches of 64:
    "domain_confusion": 2.0,
    "residual_transfer": 2.2,
    "cyclegan_pl": 1.7,  # 2.4 in the first of its two trainings
    "ws_cda_pplo": 2.0,
}
AROUND = 1.25  # augmentation, labelling and scores, over the steps of the network themselves
KEYPOINTS = 16  # about
INSTANCES = 10_000  # of an epoch that is a pass over them, about
SECONDS = 1.5  # of measuring


def images_of(config: Config) -> int:
    """Training images of a run, candidates included."""
    return sum(_images(own, INSTANCES) for own in _trained(config).values()) + search_images_of(config)


def search_images_of(config: Config) -> int:
    """Training images of a run's candidates, of those too that become its networks."""
    return candidates(config) * _images(config.proxied(), config.proxy.images or INSTANCES)


def trainings_of(config: Config) -> int:
    return len(_trained(config)) + candidates(config)


def _trained(config: Config) -> dict[str, Config]:
    """The stages of a run that are not candidates of its searches."""
    found = found_by_search(config)
    return {name: own for name, own in method_of(config).stages(config).items() if name not in found}


def _images(config: Config, instances: int) -> int:
    settings = config.train
    return settings.epochs * (settings.steps_per_epoch * settings.batch if settings.epoch == "steps" else instances)


def seconds_per_image(config: Config) -> float:
    """Of training the configuration's network on this machine, measured for a moment."""
    device = pick_device(config.execute.device)
    with thread_count(config.execute.final_threads):
        net = fresh_network(config, KEYPOINTS, 0, device).train()
        optimizer = make_optimizer(net, config)
        size = config.model.input_size
        batch = torch.rand(config.train.batch, 3, size, size, device=device).to(memory_format=torch.channels_last)
        times: list[float] = []
        until = time.monotonic() + SECONDS
        while len(times) < 3 or time.monotonic() < until:
            start = time.monotonic()
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(net(batch).square().mean())
            optimizer.step()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            times.append(time.monotonic() - start)
    return statistics.median(times[1:]) / config.train.batch


def hours(specs: Sequence[RunSpec], results: Results) -> dict[RunSpec, float]:
    """Of each run on one core (or GPU), 0 where it is done; from finished runs of the row, or else by measuring.

    The network that runs on the same labels begin with is counted once, where it comes first.
    """
    speeds: dict[str, float] = {}
    known: dict[str, list[float]] = {}
    trained: set[str] = set()  # first networks
    for spec in specs:
        if found := results.of(spec):
            known.setdefault(spec.method, []).append(float(found["seconds"]))
            trained.add(_first_network(spec))
    cost = {}
    for spec in specs:
        if results.of(spec):
            cost[spec] = 0.0
            continue
        first = _first_network(spec)
        shared = _images(spec.config.taught(first=True), INSTANCES) if first in trained else 0
        images = images_of(spec.config) - shared
        trained |= {first} - {""}
        if spec.method in known:
            cost[spec] = statistics.mean(known[spec.method]) / 3600 * images / images_of(spec.config)
            continue
        kind = spec.config.model.model_dump_json() + str(spec.config.train.batch)
        if kind not in speeds:
            check_networks(spec.config, KEYPOINTS)
            speeds[kind] = seconds_per_image(spec.config)
        relative = RELATIVE.get(spec.config.method, 1.0) * AROUND
        cost[spec] = images * speeds[kind] * relative / 3600
    return cost


def _first_network(spec: RunSpec) -> str:
    """What tells the networks apart that runs begin with; nothing where a method has none."""
    first = method_of(spec.config).stages(spec.config).get(FIRST)
    if first is None:
        return ""
    settings = first.model_dump_json(include={"model", "train", "augment", "label"})  # as Remembering has it
    return f"{spec.dataset} {spec.fraction} {spec.seed} {settings}"

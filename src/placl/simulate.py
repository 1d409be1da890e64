"""A run on a cluster that is not at hand: rounds of labelling, search and retraining, with stragglers and failures.

A small discrete-event simulation. It knows nothing of networks: how long a unit takes and what it reads is told by
:class:`Work`, and ``benchmarks/scale.py`` holds it against measured runs.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

PARTS = ("start", "shipping", "labelling", "search", "retraining")


@dataclass(frozen=True)
class Cluster:
    """Workers are GPUs, or processes where there are none."""

    workers: int
    per_node: int = 8  # workers that share a node's link
    start: float = 0.0  # seconds until the workers are there
    spread: float = 0.0  # of the times of equal jobs: sigma of a lognormal factor of mean 1
    failures: float = 0.0  # of one worker, per hour of work
    repair: float = 0.0  # seconds until a lost worker is replaced
    bandwidth: float = math.inf  # bytes a second into a node

    @property
    def nodes(self) -> int:
        return -(-self.workers // self.per_node)


@dataclass(frozen=True)
class Work:
    """R rounds of a labelling pass, T steps of M candidates and a retraining; before them, round 0."""

    rounds: int  # R
    steps: int  # T
    samples: int  # M
    candidate: float  # seconds of one candidate on its GPUs
    candidate_gpus: int = 1  # more: by DDP
    labelling: float = 0.0  # GPU seconds of a pass over a half
    shards: int = 1  # a pass is cut into so many jobs
    retraining: float = 0.0  # seconds of a full training on its GPUs
    retraining_gpus: int = 1
    first: float = 0.0  # seconds of round 0, on the same GPUs
    candidate_bytes: float = 0.0  # read by each node that trains candidates, once a round
    label_bytes: float = 0.0  # read by all nodes together in a pass, once
    retraining_bytes: float = 0.0  # read by all nodes together in a retraining
    stored_bytes: float = 0.0  # in the end


@dataclass
class Report:
    """What a run came to. Times are seconds of the clock, by part."""

    parts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    busy: float = 0.0  # GPU seconds of work, that which was lost counted too
    lost: int = 0  # jobs whose worker died
    traffic: float = 0.0  # bytes into nodes
    stored: float = 0.0
    workers: int = 1

    @property
    def seconds(self) -> float:
        return sum(self.parts.values())

    @property
    def gpu_hours(self) -> float:
        """Paid, not worked."""
        return self.seconds * self.workers / 3600

    @property
    def busy_share(self) -> float:
        return self.busy / (self.seconds * self.workers) if self.seconds else 0.0

    @property
    def bottleneck(self) -> str:
        return max(self.parts, key=lambda part: self.parts[part])


@dataclass(frozen=True)
class Ended:
    seconds: float
    busy: float  # lane seconds
    lost: int


def run_jobs(
    durations: Iterable[float], lanes: int, *, failures: float, repair: float, random: np.random.Generator
) -> Ended:
    """Jobs in order, the next to the first free lane, until all are done; ``failures`` of a lane are per hour.

    A job whose lane dies is the next to be run, from its beginning: so do the executors.
    """
    waiting = deque(durations)
    idle, running, clock, busy, lost = lanes, 0, 0.0, 0.0, 0
    events: list[tuple[float, int, str, float]] = []  # time, a number that breaks ties, what ends, the job's duration
    number = 0
    while waiting or running:
        while waiting and idle:
            duration = waiting.popleft()
            alive = float(random.exponential(3600 / failures)) if failures else math.inf
            kind, worked = ("lost", alive) if alive < duration else ("done", duration)
            heapq.heappush(events, (clock + worked, number, kind, duration))
            busy += worked
            idle, running, number = idle - 1, running + 1, number + 1
        clock, _, kind, duration = heapq.heappop(events)
        if kind == "lost":
            lost += 1
            waiting.appendleft(duration)
            heapq.heappush(events, (clock + repair, number, "repaired", 0.0))
            number += 1
        else:
            idle += 1
        running -= kind != "repaired"
    return Ended(clock, busy, lost)


def simulate(work: Work, cluster: Cluster, seed: int = 0) -> Report:
    """One run; another seed draws other stragglers and failures."""
    if max(work.candidate_gpus, work.retraining_gpus) > cluster.workers:
        raise ValueError(f"a job wants more GPUs than the {cluster.workers} there are")
    random = np.random.default_rng(seed)
    report = Report(workers=cluster.workers, stored=work.stored_bytes)
    report.parts["start"] = cluster.start

    def together(part: str, seconds: float, count: int, gpus: int) -> None:
        """``count`` equal jobs of ``gpus`` GPUs each; the part goes on when the slowest is done."""
        factors = np.exp(random.normal(-(cluster.spread**2) / 2, cluster.spread, count))
        ended = run_jobs(
            (seconds * factors).tolist(),
            cluster.workers // gpus,
            failures=cluster.failures * gpus,  # one of them is enough
            repair=cluster.repair,
            random=random,
        )
        report.parts[part] += ended.seconds
        report.busy += ended.busy * gpus
        report.lost += ended.lost

    def ship(to_each: float, nodes: int) -> None:
        report.parts["shipping"] += to_each / cluster.bandwidth
        report.traffic += to_each * nodes

    def retrain(seconds: float, read: float) -> None:
        """Data stream in beside the training, which waits for them where the links are slower."""
        nodes = -(-work.retraining_gpus // cluster.per_node)
        streaming = read / nodes / cluster.bandwidth
        report.traffic += read
        together("retraining", max(seconds, streaming), 1, work.retraining_gpus)

    retrain(work.first, 0.0)
    used = min(cluster.workers, work.samples * work.candidate_gpus)
    for _ in range(work.rounds):
        ship(work.label_bytes / cluster.nodes, cluster.nodes)
        together("labelling", work.labelling / work.shards, work.shards, 1)
        ship(work.candidate_bytes, -(-used // cluster.per_node))
        for _ in range(work.steps):  # a step's rewards move the policy that proposes the next step
            together("search", work.candidate, work.samples, work.candidate_gpus)
        retrain(work.retraining, work.retraining_bytes)
    return report


def ddp_seconds(seconds: float, gpus: int, per_doubling: float) -> float:
    """A training of ``seconds`` on one GPU, on several: each doubling keeps ``per_doubling`` of the speed."""
    return seconds / (gpus * float(per_doubling ** math.log2(gpus)))

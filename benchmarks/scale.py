"""100 million images on 1,000 GPUs: the simulator against measured small runs, and what it says of large ones.

    python benchmarks/scale.py ../shared/data/cub.tar

Trains for about two minutes, reads 500 birds, and prints the tables of `docs/scale.md`.
Writes `benchmarks/results/scale.csv` (measured and simulated) and `benchmarks/results/scale_scenarios.csv`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np

from cub import RESULTS, prepare
from placl import config as configuration
from placl.api import draw_roles, train
from placl.calibration import calibrate, kind_of, stand_in
from placl.config import Config
from placl.curriculum.curriculum import constant
from placl.data.load import Dataset, load_dataset
from placl.data.splits import make_problem
from placl.data.synthetic import animals
from placl.execute.executor import Executor
from placl.execute.pool import PoolExecutor
from placl.execute.serial import SerialExecutor
from placl.files import write_csv
from placl.learn.candidate import Job, Task
from placl.learn.pseudo_labels import PseudoLabels
from placl.planning import candidate_seconds, count, seconds
from placl.run.folder import RunFolder
from placl.search import proxy_task
from placl.simulate import Cluster, Report, Work, ddp_seconds, simulate

SEEDS = range(10)
SMALL = {
    "preset": "cpu", "teacher.input_size": None, "teacher.first_batch": None, "teacher.first_augment": None,
    "train.batch": 16, "train.optimizer": "adamw", "train.lr": 0.002, "train.epochs": 10,
    "train.steps_per_epoch": 10, "proxy.epochs": 10, "proxy.steps_per_epoch": 4, "proxy.val_images": None,
    "rounds.count": 2, "rounds.finish": "last", "search.searcher": "ppo2", "search.steps": 3, "search.samples": 6,
    "data.label_fraction": 0.2, "execute.workers": 2, "execute.device": "cpu",
}  # fmt: skip

# The paper: 32 V100s train 768 candidates of 210 epochs in 1.5 days; read as proxies of 5,000 images (its appendix).
GPUS, DAYS, TRAININGS, EPOCHS, PROXY = 32, 1.5, 768, 210, 5000
V100 = TRAININGS * EPOCHS * PROXY / (GPUS * DAYS * 86400)  # images a second and GPU
A100 = 2 * V100  # assumed
READ = 3 * A100  # assumed: a forward pass is a third of a training step
PER_DOUBLING = 0.97  # assumed, of DDP
FAILURES = 419 / (54 * 24 * 16384)  # of a GPU, per hour: Llama 3's 419 unexpected interruptions (2024, section 3.3.4)
CROP = 320 * 320 * 3  # bytes: a view of 256 px with a margin of 1.25
UNLABELLED, LABELLED, ROUNDS, KEYPOINTS = 100_000_000, 10_000, 6, 17
CLUSTER = Cluster(1000, start=120, spread=0.05, failures=FAILURES, repair=600, bandwidth=12.5e9)


@dataclass(frozen=True)
class Timed:
    """A task that also tells how long its jobs took."""

    task: Task

    def run(self, job: Job, on_progress: Callable[[int, int], None]) -> float:
        begun = time.monotonic()
        self.task.run(job, on_progress)
        return time.monotonic() - begun


def small_data() -> Dataset:
    return Dataset(animals(700, 0), np.repeat(["labelled", "val", "test"], [500, 100, 100]))


def run_step(executor: Executor, task: Timed, samples: int) -> list[float]:
    found: list[float] = []
    jobs = {number: Job(constant(0.5), number) for number in range(samples)}
    executor.run(task, jobs, lambda _, took: found.append(took), lambda *_: None)
    return found


def check_search(name: str, executor: Executor, config: Config, steps: int, samples: int) -> dict[str, object]:
    """Times of single candidates in, the seconds of a search with its barriers and unfilled waves out."""
    data = small_data()
    problem = make_problem(data.pool, draw_roles(data, config))
    task = Timed(proxy_task(config, stand_in(problem, config), problem.val))
    try:
        run_step(executor, task, executor.workers)  # start
        known: list[float] = []
        measured = 0.0
        for _ in range(steps):  # in turn, so that both see the machine as it is
            known += run_step(executor, task, executor.workers)
            begun = time.monotonic()
            run_step(executor, task, samples)
            measured += time.monotonic() - begun
    finally:
        executor.close()
    spread = statistics.stdev(np.log(known).tolist())
    work = Work(rounds=1, steps=steps, samples=samples, candidate=statistics.mean(known))
    simulated = statistics.mean(
        simulate(work, Cluster(executor.workers, spread=spread), seed).seconds for seed in SEEDS
    )
    return compared(f"{name}: {steps} steps of {samples} candidates", measured, simulated)


def check_run(config: Config, out: Path) -> list[dict[str, object]]:
    """A whole small run against its journal; the simulator knows ten seconds of calibration."""
    data = small_data()
    split = draw_roles(data, config)
    problem = make_problem(data.pool, split)
    counted, speeds = count(data.pool, problem, split, config), calibrate(problem, config)
    full, proxy = kind_of(config, 1), kind_of(config.proxied(), 1)
    scoring = (len(problem.val) + len(split.test)) * speeds.read[full]
    work = Work(
        rounds=config.rounds.count,
        steps=counted.steps,
        samples=counted.samples,
        candidate=candidate_seconds(counted, speeds.beside[proxy]),
        labelling=counted.labelled[0] * speeds.label,
        retraining=seconds(counted.later[0], speeds.alone[full]) + scoring,
        first=seconds(counted.first[0], speeds.alone[full]) + scoring,
    )
    # One worker starts for round 0 and another for the search.
    simulated = simulate(work, Cluster(speeds.workers, start=2 * speeds.start))
    shutil.rmtree(out, ignore_errors=True)
    train(config, out, dataset=data)
    units = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    ends = [(unit["kind"], float(unit["elapsed"])) for unit in units]
    trainings = [before for (kind, _), (_, before) in zip(ends[1:], ends, strict=False) if kind == "training"]
    done = [end for kind, end in ends if kind == "training"]
    retraining = sum(end - begun for end, begun in zip(done[1:], trainings[1:], strict=True))
    parts = simulated.parts
    return [
        compared("a run by its journal: all of it", ends[-1][1], simulated.seconds),
        compared("its retrainings", retraining, parts["retraining"] - work.first),
        compared("the rest", ends[-1][1] - retraining, simulated.seconds - parts["retraining"] + work.first),
    ]


def compared(what: str, measured: float, simulated: float) -> dict[str, object]:
    ratio = round(simulated / measured, 3)
    return {"what": what, "measured_s": round(measured, 1), "simulated_s": round(simulated, 1), "ratio": ratio}


def measured_bytes(archive: Path, out: Path) -> dict[str, float]:
    """Of a crop of 320 px as JPEG, and of a pseudo-label's keypoint in parquet.

    The archive's images have 128 px: bytes per pixel are measured on crops of that resolution.
    """
    data = out / "cub-data"
    prepare(archive, data)
    content = json.loads((data / "val.json").read_text())
    content["annotations"] = content["annotations"][:500]
    kept = {annotation["image_id"] for annotation in content["annotations"]}
    content["images"] = [image for image in content["images"] if image["id"] in kept]
    (data / "some.json").write_text(json.dumps(content))
    settings = {"data.labeled": [str(data / "some.json")], "data.margin": 1.25, "data.cache": str(out / "crops")}
    config = configuration.load(None, settings)
    pool = load_dataset(config.data, 96).pool
    jpeg = [len(cv2.imencode(".jpg", crop, [cv2.IMWRITE_JPEG_QUALITY, 90])[1]) for crop in pool.crops]
    random = np.random.default_rng(0)
    places = random.uniform(0, pool.crop_size, pool.keypoints.shape).astype(np.float32)
    pseudo = PseudoLabels(places, random.random(places.shape[:2], np.float32), "")
    with tempfile.TemporaryDirectory() as folder:
        RunFolder(Path(folder) / "run", config).keep_pseudo_labels("round_1", pool, pseudo)
        written = (Path(folder) / "run" / "round_1" / "pseudo_labels.parquet").stat().st_size
    per_byte = statistics.mean(jpeg) / pool.crops[0].nbytes
    return {"jpeg": round(CROP * per_byte), "keypoint": written / places[..., 0].size}


@dataclass(frozen=True)
class Scenario:
    """A large run, by what the tables vary."""

    samples: int = 8
    steps: int = 16
    gpus: int = 1  # of a candidate
    proxy: int = PROXY  # images
    epochs: int = EPOCHS  # of a retraining
    together: int = 1000  # GPUs of a retraining; the code has one node's, 8
    views: int = 1
    crop: float = CROP  # bytes
    keypoint: float = 18.0  # bytes

    def work(self, workers: int) -> Work:
        half = UNLABELLED // 2
        speed = A100
        candidate = EPOCHS * self.proxy / speed
        image = ddp_seconds(1.0, self.together, PER_DOUBLING) / speed  # seconds, in a retraining
        return Work(
            rounds=ROUNDS, steps=self.steps, samples=self.samples,
            candidate=ddp_seconds(candidate, self.gpus, PER_DOUBLING), candidate_gpus=self.gpus,
            labelling=half * self.views / READ, shards=2 * workers,
            retraining=self.epochs * (half + LABELLED) * image, retraining_gpus=self.together,
            first=EPOCHS * LABELLED * image,
            candidate_bytes=self.proxy * self.crop, label_bytes=half * self.crop,
            retraining_bytes=self.epochs * (half + LABELLED) * self.crop,
            stored_bytes=(UNLABELLED + LABELLED) * self.crop + ROUNDS * half * KEYPOINTS * self.keypoint,
        )  # fmt: skip


def average(scenario: Scenario, cluster: Cluster) -> dict[str, float]:
    reports = [simulate(scenario.work(cluster.workers), cluster, seed) for seed in SEEDS]

    def mean(of: Callable[[Report], float]) -> float:
        return statistics.mean(of(report) for report in reports)

    parts = {part: round(mean(lambda r, part=part: r.parts[part]) / 3600, 2) for part in reports[0].parts}
    return {
        "hours": round(mean(lambda r: r.seconds) / 3600, 1),
        **{part: hours for part, hours in parts.items() if part != "start"},
        "gpu_hours": round(mean(lambda r: r.gpu_hours)),
        "busy": round(mean(lambda r: r.busy_share), 3),
        "lost": round(mean(lambda r: r.lost), 1),
        "traffic_tb": round(mean(lambda r: r.traffic) / 1e12, 1),
        "stored_tb": round(mean(lambda r: r.stored) / 1e12, 1),
    }


def scenarios(sizes: dict[str, float]) -> dict[str, list[tuple[str, Scenario, Cluster]]]:
    plain = Scenario(keypoint=sizes["keypoint"])
    node = replace(plain, gpus=8)
    tuned = replace(node, samples=64, steps=2, epochs=10)

    def varied(base: Scenario, key: str, values: list[float]) -> list[tuple[str, Scenario, Cluster]]:
        return [(f"{value:,}", replace(base, **{key: value}), CLUSTER) for value in values]

    fixed = [(8, 16), (16, 8), (64, 2), (128, 1)]
    return {
        "GPUs of a retraining": varied(node, "together", [8, 64, 1000]),
        "GPUs of a candidate": varied(plain, "gpus", [1, 8, 64, 125]),
        "M x T = 128": [(f"M={m}, T={t}", replace(plain, samples=m, steps=t), CLUSTER) for m, t in fixed],
        "T = 16": [(f"M={m}", replace(plain, samples=m), CLUSTER) for m in (8, 16, 64, 256)],
        "proxy images": varied(node, "proxy", [5000, 100_000, 1_000_000, 50_000_000]),
        "retraining epochs": varied(node, "epochs", [210, 50, 10]),
        "failures": [(f"{n} x Llama 3", node, replace(CLUSTER, failures=n * FAILURES)) for n in (0, 1, 5, 10)],
        "failures, 10 epochs": [
            (f"{n} x Llama 3", tuned, replace(CLUSTER, failures=n * FAILURES)) for n in (0, 1, 5, 10)
        ],
        "stragglers": [(f"spread {s}", tuned, replace(CLUSTER, spread=s)) for s in (0, 0.05, 0.2, 0.5)],
        "views of a label": varied(tuned, "views", [1, 10]),
        "crops": [("raw", tuned, CLUSTER), ("JPEG", replace(tuned, crop=sizes["jpeg"]), CLUSTER)],
    }


def print_derived() -> None:
    """What the page says besides its tables."""
    work = Scenario(epochs=10).work(CLUSTER.workers)
    images = 10 * (UNLABELLED // 2 + LABELLED) / work.retraining
    print(
        f"DDP: 8 GPUs are {1 / ddp_seconds(1, 8, PER_DOUBLING):.1f}, 1,000 {1 / ddp_seconds(1, 1000, PER_DOUBLING):.0f}"
    )
    print(f"a retraining on 1,000 GPUs reads {images:,.0f} images/s, {images * CROP / 1e9:.0f} GB/s as raw crops")
    print(f"a node's share of the crops is {UNLABELLED * CROP / CLUSTER.nodes / 1e12:.2f} TB", end="; ")
    print(f"pseudo-labels of all rounds are {ROUNDS * UNLABELLED / 2 * KEYPOINTS * Scenario.keypoint / 1e12:.2f} TB\n")


def print_table(rows: list[dict[str, object]]) -> None:
    print("| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
    for row in rows:
        print(
            "| " + " | ".join(f"{value:,}" if isinstance(value, int) else str(value) for value in row.values()) + " |"
        )
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder for the data and the run")
    arguments = parser.parse_args()
    config = configuration.load(None, SMALL)
    checks = [
        check_search("this process", SerialExecutor(), config, 2, 3),
        check_search("a pool of 1", PoolExecutor(1), config, 2, 3),
        check_search("a pool of 2", PoolExecutor(2), config, 3, 7),
        *check_run(config, arguments.out / "scale"),
    ]
    write_csv(RESULTS / "scale.csv", checks)
    print_table(checks)
    sizes = measured_bytes(arguments.archive, arguments.out)
    print(
        f"V100 {V100:.0f} images/s, A100 {A100:.0f} and {READ:.0f} read; one failure in {1 / FAILURES:,.0f} GPU hours"
    )
    print(f"a crop is {CROP:,} bytes, {sizes['jpeg']:,.0f} as JPEG; a keypoint's label {sizes['keypoint']:.1f} bytes\n")
    print_derived()
    rows: list[dict[str, object]] = []
    for title, lines in scenarios(sizes).items():
        found = [{title: name, **average(scenario, cluster)} for name, scenario, cluster in lines]
        print_table(found)
        rows += [{"table": title, "case": row.pop(title), **row} for row in found]
    write_csv(RESULTS / "scale_scenarios.csv", rows)


if __name__ == "__main__":
    main()

"""What a training comes to that is killed, starved of disk or damaged, and started again.

    python benchmarks/faults.py [--quick] [--json] [--seed 0]

A small real training (PLACL on drawn animals, seconds) runs undisturbed once. Then, over and over, it is disturbed in
one of these ways and carried on until it ends:

    kill      SIGKILL at a random moment, several times in one run
    signal    SIGINT or SIGTERM at a random moment; it must end by itself and say how to carry on
    worker    SIGKILL to a worker process of the pool
    disk      a full disk (a small tmpfs, which needs root); afterwards there is room again
    truncate, flip, delete    a random file of the folder of a half or wholly finished run is damaged

Each must end `identical`: every file of the folder that holds a result has the bytes of the undisturbed run's, but for
times. Or it must be `refused`, by one line on stderr that names the damaged file. Everything else is `wrong`.
Writes `benchmarks/results/faults.csv`, but for `--quick`.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from placl import api, rounds
from placl.cli.main import main as placl
from placl.data.synthetic import write_animals
from placl.files import write_csv
from placl.learn import checkpoint

LOADED = (api, rounds)  # which the command imports when it needs them: once here, and not in every process
RESULTS = Path(__file__).parent / "results"
SETTINGS = [
    *("model.input_size=32", "model.width=0.5", "augment.cutout=1", "select.scale=quantile", "search.group_size=1"),
    *("train.epochs=2", "train.epoch=steps", "train.steps_per_epoch=4", "train.batch=8", "search.updates=5"),
    *("teacher.input_size=null", "teacher.steps_per_epoch=null", "proxy.val_images=null", "proxy.epochs=null"),
    *("proxy.steps_per_epoch=1", "search.searcher=ppo2", "search.steps=2", "search.samples=2"),
    *("rounds.count=1", "rounds.finish=both", "teacher.first_batch=null", "teacher.first_augment=null"),
    *("train.optimizer=adamw", "train.lr=0.002", "train.labelled_share=0.5", "search.initial=0.3", "search.rise=0"),
    *("data.label_fraction=0.5", "data.val_fraction=0.2", "data.test_fraction=0.2", "data.margin=1.0"),
    *("execute.threads=1", "execute.final_threads=1", "execute.device=cpu", "execute.workers=2"),
]
COUNTS = {"kill": 120, "signal": 20, "worker": 8, "disk": 20, "truncate": 30, "flip": 60, "delete": 30}
QUICK = {"kill": 3, "signal": 1, "worker": 0, "disk": 1, "truncate": 1, "flip": 2, "delete": 1}
# Times, what TensorBoard and people are told, and the record of a run's beginning: no results.
NO_RESULTS = {"journal.jsonl", "environment.json", "config.yaml", "report.html", ".lock"}
DISK = 24 << 20  # bytes
UNHEARD = 99  # exit code of a process that was stopped before it could hear signals
PATIENCE = 600.0  # seconds that a run may take


@dataclass
class Tally:
    tried: int = 0
    identical: int = 0
    refused: int = 0
    wrong: int = 0
    why: list[str] = field(default_factory=list)

    def count(self, outcome: str, times: int = 1, why: str = "") -> None:
        self.tried += times
        setattr(self, outcome, getattr(self, outcome) + times)
        if outcome == "wrong":
            self.why.append(why)


class Bench:
    """Runs of one training in folders below ``place``. Processes are forks: Python starts and imports torch once."""

    def __init__(self, place: Path, seed: int) -> None:
        self.place, self.random = place, random.Random(seed)
        self.labels = place / "animals" / "annotations.json"
        if (pid := os.fork()) == 0:  # not here: threads of OpenCV would not survive the forks to come
            write_animals(self.labels.parent, 60, 0, size=48)
            os._exit(0)
        os.waitpid(pid, 0)
        self._log = place / "stderr.txt"
        self._made = 0
        start = time.monotonic()
        self.reference = self.fresh()
        if code := self.finish(self.reference):
            raise SystemExit(f"the undisturbed run failed ({code}): {self.said()}")
        self.seconds = time.monotonic() - start
        self.expected = results_of(self.reference)

    def fresh(self) -> Path:
        self._made += 1
        return self.place / f"run-{self._made}"

    def start(self, run: Path, where: str = "serial") -> int:
        """A process that trains; returns its id."""
        cache = self.place / "cache"
        command = ["train", "--labeled", str(self.labels), "--out", str(run), "-q", f"data.cache={cache}"]
        often = self.random.random() < 0.5  # a kill may then hit a checkpoint that is being written
        pid = os.fork()
        if pid == 0:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
            checkpoint.EVERY = 0.0 if often else 0.2
            code = UNHEARD
            try:
                code = placl([*command, *SETTINGS, f"execute.where={where}"])
            finally:
                os._exit(code)
        return pid

    def finish(self, run: Path, where: str = "serial") -> int:
        """Run until it ends by itself; the exit code."""
        return ended(self.start(run, where), PATIENCE)

    def said(self) -> str:
        return self._log.read_text().strip()

    def judge(self, run: Path, damaged: str = "") -> tuple[str, str]:
        """Carry on until the end, and compare."""
        if code := self.finish(run):
            lines = self.said().splitlines()
            named = bool(damaged) and len(lines) == 1 and damaged in lines[0] and "Traceback" not in lines[0]
            return ("refused" if named and code in (1, 2) else "wrong"), f"exit code {code}: {self.said()[-500:]}"
        found = results_of(run)
        other = [name for name in {*found, *self.expected} if found.get(name) != self.expected.get(name)]
        return ("wrong" if other else "identical"), f"other files: {', '.join(sorted(other))}"


def ended(pid: int, patience: float) -> int:
    """Wait; what takes too long is killed."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    kill_all(pid)
    os.waitpid(pid, 0)
    return -signal.SIGALRM


def kill_all(pid: int) -> None:
    """A process and its group, which it may not have had the time to make."""
    for end in (os.killpg, os.kill):
        with suppress(ProcessLookupError):
            end(pid, signal.SIGKILL)


def results_of(run: Path) -> dict[str, bytes]:
    """The content of every file that holds a result, times taken out."""
    found = {}
    for file in sorted(run.rglob("*")):
        name = file.relative_to(run).as_posix()
        if file.is_file() and name not in NO_RESULTS and not name.startswith("tb/"):
            found[name] = _without_seconds(file.read_bytes()) if name == "results.csv" else file.read_bytes()
    return found


def _without_seconds(table: bytes) -> bytes:
    rows = list(csv.DictReader(io.StringIO(table.decode())))
    return json.dumps([{key: value for key, value in row.items() if key != "seconds"} for row in rows]).encode()


# --- the faults


def kill(bench: Bench, tally: Tally, times: int) -> None:
    """In chains: a run is killed again and again until it comes to its end first."""
    while tally.tried < times:
        run, kills = bench.fresh(), 0
        while kills < 12:
            pid = bench.start(run)
            time.sleep(bench.random.uniform(0, bench.seconds / 2))
            kill_all(pid)
            if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != -signal.SIGKILL:
                break
            kills += 1
        if kills:
            outcome, why = bench.judge(run)
            tally.count(outcome, kills, why)
        shutil.rmtree(run, ignore_errors=True)


def stop(bench: Bench, tally: Tally, times: int) -> None:
    while tally.tried < times:
        run = bench.fresh()
        pid, number = bench.start(run), bench.random.choice([signal.SIGINT, signal.SIGTERM])
        time.sleep(bench.random.uniform(0.2, bench.seconds))
        os.kill(pid, number)
        code = ended(pid, PATIENCE)
        last = (bench.said().splitlines() or [""])[-1]
        if code in (-number, UNHEARD, 0):  # before it could hear, or after the end
            shutil.rmtree(run, ignore_errors=True)
            continue
        if code != 128 + number or "carries on" not in last:
            tally.count("wrong", 1, f"exit code {code} after signal {number}: {bench.said()[-300:]}")
            continue
        outcome, why = bench.judge(run)
        tally.count(outcome, 1, why)
        shutil.rmtree(run, ignore_errors=True)


def kill_worker(bench: Bench, tally: Tally, times: int) -> None:
    while tally.tried < times:
        run = bench.fresh()
        pid = bench.start(run, "pool")
        while not workers_of(pid) and " Z " not in Path(f"/proc/{pid}/stat").read_text():
            time.sleep(0.05)
        time.sleep(bench.random.uniform(0, bench.seconds / 2))
        killed = [worker for worker in workers_of(pid)[:1] if _killed(worker)]
        code = ended(pid, PATIENCE)
        if killed:
            outcome, why = ("wrong", f"exit code {code}: {bench.said()[-300:]}") if code else bench.judge(run)
            tally.count(outcome, 1, why)
        elif code:
            tally.count("wrong", 1, f"exit code {code}: {bench.said()[-300:]}")
        shutil.rmtree(run, ignore_errors=True)


def workers_of(pid: int) -> list[int]:
    """Children of the server that forks workers, itself a child of the run."""
    return [child for server in _children(pid) for child in _children(server)]


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _killed(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def fill_disk(bench: Bench, tally: Tally, times: int) -> None:
    with tmpfs(bench.place / "disk") as disk:
        while disk is not None and tally.tried < times:
            run, ballast = disk / "run", disk / "ballast"
            size = sum(file.stat().st_size for file in bench.reference.rglob("*") if file.is_file())
            with open(ballast, "wb") as file:
                os.posix_fallocate(file.fileno(), 0, DISK - bench.random.randrange(1 << 14, size))
            code = bench.finish(run)
            full = code == 1 and len(lines := bench.said().splitlines()) == 1 and "no space left" in lines[0]
            ballast.unlink()
            if full:
                outcome, why = bench.judge(run)
                tally.count(outcome, 1, why)
            elif code:
                tally.count("wrong", 1, f"exit code {code} on a full disk: {bench.said()[-500:]}")
            shutil.rmtree(run, ignore_errors=True)


@contextmanager
def tmpfs(place: Path) -> Iterator[Path | None]:
    """A small disk, or None where none may be mounted."""
    place.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(place)]
    mounted = not subprocess.run(["mount", *options], capture_output=True).returncode if os.getuid() == 0 else False
    try:
        yield place if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(place)], check=True)


def damage(bench: Bench, tally: Tally, times: int, kind: str) -> None:
    """Of runs that were killed at some moment, or had ended."""
    while tally.tried < times:
        run = bench.fresh()
        if bench.random.random() < 0.3:
            shutil.copytree(bench.reference, run)
        else:
            pid = bench.start(run)
            time.sleep(bench.random.uniform(0.3, 1.0) * bench.seconds)
            kill_all(pid)
            os.waitpid(pid, 0)
        files = [file for file in sorted(run.rglob("*")) if file.is_file() and file.stat().st_size]
        if files:
            victim = bench.random.choice(files)
            spoil(victim, kind, bench.random)
            name = victim.relative_to(run).as_posix()
            outcome, why = bench.judge(run, victim.name)
            tally.count(outcome, 1, f"{name}: {why}")
        shutil.rmtree(run, ignore_errors=True)


def spoil(file: Path, kind: str, draw: random.Random) -> None:
    content = bytearray(file.read_bytes())
    if kind == "delete":
        file.unlink()
    elif kind == "truncate":
        file.write_bytes(content[: draw.randrange(len(content))])
    else:
        content[draw.randrange(len(content))] ^= draw.randrange(1, 256)
        file.write_bytes(content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few of each, for CI")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", choices=list(COUNTS), help="kinds of faults")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    faults = {"kill": kill, "signal": stop, "worker": kill_worker, "disk": fill_disk}
    tallies: dict[str, Tally] = {}
    with tempfile.TemporaryDirectory(prefix="placl-faults-") as place:
        bench = Bench(Path(place), arguments.seed)
        for kind, times in (QUICK if arguments.quick else COUNTS).items():
            if arguments.only and kind not in arguments.only:
                continue
            tally = tallies[kind] = Tally()
            if kind in faults:
                faults[kind](bench, tally, times)
            else:
                damage(bench, tally, times, kind)
            print(f"{kind:9}{tally.tried:5} tried {tally.identical:5} identical {tally.refused:4} refused "
                  f"{tally.wrong:3} wrong", file=sys.stderr, flush=True)  # fmt: skip
            for why in tally.why:
                print(f"  {why}", file=sys.stderr, flush=True)
    found = {kind: {key: value for key, value in asdict(t).items() if key != "why"} for kind, t in tallies.items()}
    if not arguments.quick and not arguments.only:
        write_csv(RESULTS / "faults.csv", [{"fault": kind, **counts} for kind, counts in found.items()])
    if arguments.json:
        print(json.dumps(found, indent=2))
    raise SystemExit(any(counts["wrong"] for counts in found.values()))


if __name__ == "__main__":
    main()

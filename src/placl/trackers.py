"""The trackers that ``track`` knows, each in its own words. Where runs go is set by the tracker's own variables."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any, Protocol

PROJECT = "placl"  # where MLFLOW_EXPERIMENT_NAME or WANDB_PROJECT names no other
PARAMS_AT_ONCE = 100  # what MLflow takes
LONGEST_PARAM = 500  # characters; older servers take no more


class Tracker(Protocol):
    def begin(self, run: Path, settings: dict[str, Any], known: str | None) -> tuple[str, str]:
        """A new run of the tracker, or the ``known`` one again: its id, and a line on where to look at it."""
        ...

    def log(self, scalars: dict[str, float], step: int) -> None: ...

    def end(self, files: list[Path], finished: bool) -> None:
        """Keep files and folders, and say how it ended."""
        ...


class MLflow:
    """Through the client, which leaves MLflow's global state alone. ``MLFLOW_TRACKING_URI`` says where."""

    def begin(self, run: Path, settings: dict[str, Any], known: str | None) -> tuple[str, str]:
        import mlflow
        from mlflow.entities import Param

        self._client = mlflow.MlflowClient()
        if known is not None:
            self._id = known
            self._client.update_run(known, status="RUNNING")
        else:
            name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
            experiment = self._client.get_experiment_by_name(name)
            place = experiment.experiment_id if experiment else self._client.create_experiment(name)
            self._id = self._client.create_run(place, run_name=run.name).info.run_id
            params = [Param(key, str(value)[:LONGEST_PARAM]) for key, value in settings.items()]
            for start in range(0, len(params), PARAMS_AT_ONCE):
                self._client.log_batch(self._id, params=params[start : start + PARAMS_AT_ONCE])
        return self._id, f"run {self._id} at {mlflow.get_tracking_uri()}"

    def log(self, scalars: dict[str, float], step: int) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        self._client.log_batch(self._id, metrics=[Metric(name, value, now, step) for name, value in scalars.items()])

    def end(self, files: list[Path], finished: bool) -> None:
        for file in files:
            keep = self._client.log_artifacts if file.is_dir() else self._client.log_artifact
            keep(self._id, str(file), *([file.name] if file.is_dir() else []))
        self._client.set_terminated(self._id, "FINISHED" if finished else "KILLED")


class WandB:
    """Nothing is asked for: without a key, ``WANDB_MODE=offline`` keeps the run in its folder for ``wandb sync``."""

    def begin(self, run: Path, settings: dict[str, Any], known: str | None) -> tuple[str, str]:
        import wandb

        online = wandb.setup().settings.mode == "online"
        if online and not wandb.login(prompt=False, verify=False):
            raise RuntimeError("there is no key. Run wandb login, or set WANDB_MODE=offline")
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=run.name,
            id=known,
            resume="allow" if known else None,
            config=settings,
            dir=str(run),
            settings=wandb.Settings(silent=True, console="off"),
        )
        self._groups: set[str] = set()
        where = self._run.url if online else f"offline; wandb sync {Path(self._run.dir).parent} sends it"
        return str(self._run.id), str(where)

    def log(self, scalars: dict[str, float], step: int) -> None:
        group = next(iter(scalars)).partition("/")[0]
        if group not in self._groups:  # each group of numbers has an axis of its own
            self._groups.add(group)
            self._run.define_metric(f"{group}/*", step_metric=f"{group}/step")
        self._run.log({**scalars, f"{group}/step": step})

    def end(self, files: list[Path], finished: bool) -> None:
        import wandb

        if files:
            name = re.sub(r"[^\w.-]", "-", self._run.name or self._run.id)[:100]
            results = wandb.Artifact(name, type="model")
            for file in files:
                if file.is_dir():
                    results.add_dir(str(file), name=file.name)
                else:
                    results.add_file(str(file))
            self._run.log_artifact(results)
        self._run.finish(exit_code=0 if finished else 1)


TRACKERS: dict[str, type[Tracker]] = {"mlflow": MLflow, "wandb": WandB}

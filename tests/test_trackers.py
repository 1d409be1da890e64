"""MLflow and W&B themselves, the one with a database in the test's folder, the other offline."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from placl.config import Config, flat
from placl.trackers import MLflow, WandB


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """What a finished run leaves."""
    folder = tmp_path / "runs" / "my birds <1>"
    (folder / "best").mkdir(parents=True)
    (folder / "best" / "model.yaml").write_text("stage: final\n")
    (folder / "report.html").write_text("<html></html>")
    return folder


def test_mlflow(run: Path, tiny: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.chdir(tmp_path)  # artifacts go to ./mlartifacts or ./mlruns
    settings = flat(tiny({"train.lr": 0.5}))
    first = MLflow()
    known, where = first.begin(run, settings, None)
    assert where == f"run {known} at sqlite:///{tmp_path}/mlflow.db"
    first.log({"stages/val": 61.5}, 0)
    first.end([], finished=False)

    client = mlflow.MlflowClient()
    assert client.get_run(known).info.status == "KILLED"
    again = MLflow()
    assert again.begin(run, settings, known)[0] == known
    again.log({"stages/val": 64.5}, 1)
    again.end([run / "report.html", run / "best"], finished=True)

    found = client.get_run(known)
    assert (found.info.run_name, found.info.status) == (run.name, "FINISHED")
    assert found.data.params["train.lr"] == "0.5"
    assert set(found.data.params) == set(settings)
    assert [(point.step, point.value) for point in client.get_metric_history(known, "stages/val")] == [
        (0, 61.5),
        (1, 64.5),
    ]
    assert {file.path for file in client.list_artifacts(known)} == {"report.html", "best"}
    assert [file.path for file in client.list_artifacts(known, "best")] == ["best/model.yaml"]


def test_wandb_offline(run: Path, tiny: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path))
    wandb.teardown()  # it reads the environment once
    tracker = WandB()
    known, where = tracker.begin(run, flat(tiny({"train.lr": 0.5})), None)
    assert known
    assert where.startswith(f"offline; wandb sync {run / 'wandb'}")
    assert tracker._run.config["train.lr"] == 0.5
    tracker.log({"stages/val": 61.5, "stages/test": 60.0}, 0)
    tracker.log({"stages/val": 64.5}, 1)
    assert tracker._run.summary["stages/val"] == 64.5
    tracker.end([run / "report.html", run / "best"], finished=True)
    wandb.teardown()  # ends the process that writes the file
    (folder,) = (run / "wandb").glob("offline-run-*")
    (file,) = folder.glob("*.wandb")
    content = file.read_bytes()
    for word in (b"stages/val", b"train.lr", b"model.yaml", b"report.html"):
        assert word in content


def test_wandb_without_a_key_says_what_to_do(
    run: Path, tiny: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setattr(wandb, "login", lambda **asked: False)
    monkeypatch.setattr(wandb, "init", lambda **asked: pytest.fail("it would ask for a key"))
    wandb.teardown()  # it reads the environment once
    with pytest.raises(RuntimeError, match="Run wandb login, or set WANDB_MODE=offline"):
        WandB().begin(run, flat(tiny()), None)
    wandb.teardown()

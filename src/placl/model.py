"""A trained model: the network, what it localizes, and the settings that reading it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from placl import config as configuration
from placl.config import Config
from placl.data.skeleton import Skeleton
from placl.errors import InputError
from placl.learn.device import pick_device
from placl.learn.network import fresh_network
from placl.models.weights import read_state, weights_sha256
from placl.models.zoo import KeypointNet
from placl.plain_yaml import load_yaml

if TYPE_CHECKING:
    from placl.outputs.predictions import Predictions

WEIGHTS, DESCRIPTION = "model.safetensors", "model.yaml"


@dataclass(frozen=True)
class Model:
    """A network with what it needs to be used. Called with images, it predicts: ``placl.load("runs/x")(images)``."""

    net: KeypointNet
    skeleton: Skeleton
    config: Config  # model, train, label, select, reward and the crops' geometry are those of the training
    stage: str  # which network of the run it is
    sha256: str  # of the weights
    path: Path  # the folder it comes from

    def __repr__(self) -> str:
        network = f"{self.config.model.name}, {self.config.model.input_size} px"
        return f"Model({str(self.path)!r}: {self.stage}, {network}, {len(self.skeleton)} keypoints)"

    @staticmethod
    def from_dir(path: Path | str, device: str = "auto") -> Model:
        """The model of a run (its ``best/``), or of a folder with model.yaml and model.safetensors."""
        folder = find_model(Path(path))
        described = _read_description(folder / DESCRIPTION)
        try:
            skeleton = Skeleton(
                keypoints=tuple(described["keypoints"]),
                edges=tuple((int(a), int(b)) for a, b in described["edges"]),
                flip_pairs=tuple((int(a), int(b)) for a, b in described["flip_pairs"]),
                sigmas=tuple(described["sigmas"]),
            )
            settings = dict(described["config"])
            # The weights are here: nothing is to be downloaded or read from where the training began.
            settings["model"] = {**settings["model"], "init": "random", "weights": None}
            stage, sha256 = str(described["stage"]), str(described["weights_sha256"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{folder / DESCRIPTION}: does not describe a model ({error}). Train again.") from error
        try:
            config = configuration.load(None, settings)
        except InputError as error:
            raise InputError(f"{folder / DESCRIPTION}: is not of this version of placl ({error})") from error
        net = fresh_network(config, len(skeleton), 0, pick_device(device))
        _load(net, folder / WEIGHTS, sha256)
        return Model(net, skeleton, config, stage, sha256, folder)

    def __call__(self, images: Sequence[np.ndarray | Path | str] | np.ndarray | Path | str) -> Predictions:
        """Predict whole images: (H, W, 3) uint8 RGB arrays or files, each with one object that fills it."""
        from placl.prediction import predict_list

        return predict_list(self, images)


def load(run: Path | str, device: str = "auto") -> Model:
    """The best model of a run, or of a copy of its ``best/``; ``device`` is ``auto``, ``cpu`` or ``cuda``."""
    return Model.from_dir(run, device)


def find_model(path: Path) -> Path:
    """The folder with the weights and their description."""
    if not path.exists():
        raise InputError(f"{path}: no such run. Name the folder that placl train wrote (its --out).")
    if not path.is_dir():
        raise InputError(f"{path}: is a file. Name the folder of a run.")
    for folder in (path / "best", path):
        if (folder / DESCRIPTION).is_file():
            if not (folder / WEIGHTS).is_file():
                raise InputError(f"{folder / WEIGHTS}: is missing. Run the training's command again to write it anew.")
            return folder
    if (path / "config.yaml").is_file():
        raise InputError(f"{path}: the run is not finished (it has no best/). Run the training's command to carry on.")
    raise InputError(f"{path}: is neither a run nor a model (it has no {DESCRIPTION}).")


def _read_description(file: Path) -> dict[str, Any]:
    try:
        content = load_yaml(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{file}: cannot be read ({type(error).__name__}). Train again or copy it again.") from error
    if not isinstance(content, dict):
        raise InputError(f"{file}: does not describe a model. Train again or copy it again.")
    return content


def _load(net: KeypointNet, file: Path, sha256: str) -> None:
    state = read_state(file)
    if weights_sha256(state) != sha256:
        raise InputError(
            f"{file}: is damaged or of another model: its weights are not those that {DESCRIPTION} names "
            "(weights_sha256). Run the training's command again to write it anew."
        )
    try:
        net.load_state_dict(state)
    except RuntimeError as error:
        raise InputError(f"{file}: does not fit the network that {DESCRIPTION} describes.") from error
    net.eval()

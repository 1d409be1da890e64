"""``placl.export``: make the files, hold them against PyTorch, and only then write them into a folder."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import torch

from placl.errors import InputError
from placl.exporting.agreement import Agreement, Read, compare, pictures
from placl.exporting.card import card
from placl.exporting.facts import read_facts, run_of
from placl.exporting.programs import INPUT, OPSET, OnnxReader, TorchReader, exported, need_onnx, onnx_bytes, torch_bytes
from placl.exporting.reader import Reader
from placl.exporting.rounding import other_peaks
from placl.files import write_atomic
from placl.model import Model
from placl.version import VERSION
from placl.watch import Silent, Watch

Format = Literal["onnx", "torch"]

ABOUT, CARD = "export.json", "README.md"
FILE_OF: dict[Format, str] = {"onnx": "model.onnx", "torch": "model.pt2"}
NOT_STATED = "not stated"

HOW_TO_CROP = (
    "scale = context * max(width, height) / size; image = scale * (crop - (size - 1) / 2) + centre of the box - 0.5, "
    "for boxes whose left upper corner is 0, 0 and pixels whose centres are integers; black outside the image; "
    "pixels are averaged where the image is shrunk. margin is room around this for augmentation while training."
)


@dataclass(frozen=True)
class Exported:
    """What an export wrote, and how it was found to agree with PyTorch."""

    folder: Path
    files: dict[str, int]  # name -> bytes
    agreement: dict[str, Agreement]  # model file -> how far it is from PyTorch


def export(
    run: Path | str,
    out: Path | str | None = None,
    *,
    formats: Sequence[Format] = ("onnx", "torch"),
    licence: str = NOT_STATED,
    overwrite: bool = False,
    watch: Watch | None = None,
) -> Exported:
    """Write a run's best model for use without placl, into ``out`` (default: ``RUN/export``).

    ``formats`` are ``onnx`` and ``torch``; beside them lie ``export.json`` and a model card. Every file has been held
    against PyTorch, on crops of the run's data where they are within reach.
    """
    watch, run = watch or Silent(), Path(run)
    wanted = _checked(formats)
    model = Model.from_dir(run, "cpu")
    folder = Path(out) if out is not None else run / "export"
    refuse_foreign(folder, overwrite)
    facts = read_facts(model)
    size = model.config.model.input_size
    reader = Reader(model.net, model.config)
    watch.say(f"exporting {model.stage} of {run}: {model.config.model.name}, {size} px")
    program = exported(reader, size)
    about = describe(model)
    content: dict[str, bytes] = {}
    if "onnx" in wanted:
        content[FILE_OF["onnx"]] = onnx_bytes(program, json.dumps(about, ensure_ascii=False))
    if "torch" in wanted:
        content[FILE_OF["torch"]] = torch_bytes(program)

    images, source = pictures(run_of(model), size, model.config.data.context)
    watch.say(f"comparing with PyTorch on {len(images)} {source}")
    readers: dict[Format, Callable[[bytes], Read]] = {"onnx": OnnxReader, "torch": TorchReader}
    agreement = {
        FILE_OF[form]: compare(
            TorchReader(reader),
            readers[form](content[FILE_OF[form]]),
            images,
            source,
            FILE_OF[form],
            partial(other_peaks, reader),
        )
        for form in wanted
    }
    about["files"] = {name: hashlib.sha256(data).hexdigest() for name, data in content.items()}
    about["agreement"] = {name: asdict(found) for name, found in agreement.items()}
    texts = {
        ABOUT: (json.dumps(about, indent=2, ensure_ascii=False) + "\n").encode(),
        CARD: card(model, facts, list(content), licence).encode(),
    }
    _write(folder, texts | content)
    return Exported(folder, {name: len(data) for name, data in (texts | content).items()}, agreement)


def _checked(formats: Sequence[Format]) -> tuple[Format, ...]:
    unknown = [name for name in formats if name not in FILE_OF]
    if unknown or not formats:
        raise InputError(f"formats={list(formats)}: name some of {', '.join(FILE_OF)}.")
    if "onnx" in formats:
        need_onnx()
    return tuple(name for name in FILE_OF if name in formats)


def describe(model: Model) -> dict[str, Any]:
    """``export.json``: all that a program needs to know to use the files."""
    size, skeleton, data = model.config.model.input_size, model.skeleton, model.config.data
    versions = {"placl": VERSION, "torch": torch.__version__, "opset": OPSET}
    return {
        "keypoints": list(skeleton.keypoints),
        "edges": [list(edge) for edge in skeleton.edges],
        "flip_pairs": [list(pair) for pair in skeleton.flip_pairs],
        "input": {
            "name": INPUT,
            "shape": ["batch", 3, size, size],
            "size": size,
            "type": "float32",
            "colour": "RGB",
            "range": [0, 255],
        },
        "outputs": {
            "keypoints": {"shape": ["batch", len(skeleton), 2], "unit": "pixels of the crop, x and y"},
            "confidence": {"shape": ["batch", len(skeleton)], "range": [0, 1]},
        },
        "crop": {"size": size, "context": data.context, "margin": data.margin, "how": HOW_TO_CROP},
        "decoding": model.config.label.decode,
        "stage": model.stage,
        "weights_sha256": model.sha256,
        "versions": versions | {name: version(name) for name in ("numpy", "onnx", "onnxruntime") if _installed(name)},
    }


def _installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def refuse_foreign(folder: Path, overwrite: bool) -> None:
    """Refuse what cannot become an export, what is something else, and an export that nobody said may go."""
    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            raise InputError(f"{place}: is a file. Name another folder for the export with --out.")
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not _is_export(folder):
        raise InputError(f"{folder}: is not empty and not an export. Name another folder with --out.")
    if not overwrite:
        raise InputError(f"{folder}: holds an export already. Pass --overwrite, or name another folder with --out.")


def _is_export(folder: Path) -> bool:
    try:
        content = json.loads((folder / ABOUT).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and "weights_sha256" in content and "placl" in content.get("versions", {})


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """``export.json`` first: by it, a folder that was interrupted is known as ours."""
    for name, data in files.items():
        write_atomic(folder / name, data)
    for name in FILE_OF.values():  # of an export in more formats
        if name not in files:
            (folder / name).unlink(missing_ok=True)

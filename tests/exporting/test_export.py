"""An export as a whole: agreement on 100 images, what is in the folder, and what is refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import placl
from placl.errors import InputError, MachineError
from placl.exporting import export as exporting
from placl.exporting.agreement import pictures
from placl.exporting.export import Exported, export
from placl.exporting.programs import OnnxReader, TorchReader
from placl.exporting.reader import Reader
from placl.model import Model


def test_onnx_and_pytorch_agree_on_100_images(made: Exported) -> None:
    found = made.agreement["model.onnx"]
    assert (found.images, found.source, found.keypoints) == (100, "crops of the run's data", 1400)
    assert found.pixels <= 1e-4
    assert found.confidence <= 1e-4
    assert found.undecided <= 14
    assert made.agreement["model.pt2"].pixels <= 1e-4


@pytest.mark.parametrize("name", ["model.onnx", "model.pt2"])
@pytest.mark.parametrize("count", [1, 7, 100])
def test_one_file_takes_any_number_of_images(made: Exported, trained: Path, name: str, count: int) -> None:
    images = pictures(trained, 32, 1.25)[0]
    model = Model.from_dir(trained, "cpu")
    content = (made.folder / name).read_bytes()
    read = OnnxReader(content) if name.endswith("onnx") else TorchReader(content)
    keypoints, confidence = read(images[:count])
    places, sure = TorchReader(Reader(model.net, model.config))(images[:count])
    assert keypoints.shape == (count, 14, 2)
    assert np.quantile(np.abs(keypoints - places), 0.99) <= 1e-4  # the others may hang on rounding
    assert np.abs(confidence - sure).max() <= 1e-4


def test_the_folder_describes_itself(made: Exported, trained: Path) -> None:
    about = json.loads((made.folder / "export.json").read_text(encoding="utf-8"))
    model = Model.from_dir(trained)
    assert sorted(file.name for file in made.folder.iterdir()) == [
        "README.md",
        "export.json",
        "model.onnx",
        "model.pt2",
    ]
    assert {name: (made.folder / name).stat().st_size for name in made.files} == made.files
    assert about["keypoints"] == list(model.skeleton.keypoints)
    assert about["weights_sha256"] == model.sha256
    assert about["input"]["shape"] == ["batch", 3, 32, 32]
    assert (about["crop"]["size"], about["crop"]["context"]) == (32, 1.25)
    for name, sha256 in about["files"].items():
        assert hashlib.sha256((made.folder / name).read_bytes()).hexdigest() == sha256


def test_the_onnx_file_is_whole_small_and_tells_no_paths(made: Exported) -> None:
    file = made.folder / "model.onnx"
    model = onnx.load(file, load_external_data=False)
    onnx.checker.check_model(model, full_check=True)
    shapes = {
        value.name: [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }
    assert shapes == {
        "images": ["batch", 3, 32, 32],
        "keypoints": ["batch", 14, 2],
        "confidence": ["batch", 14],
    }
    weights = sum(int(np.prod(tensor.dims)) for tensor in model.graph.initializer)
    assert file.stat().st_size < 4 * weights + 50_000
    assert json.loads(model.metadata_props[0].value)["keypoints"][0] == "nose"
    for name in made.agreement:
        assert b"site-packages" not in (made.folder / name).read_bytes()
        assert b"reader.py" not in (made.folder / name).read_bytes()


def test_by_its_public_name_beside_the_run(run: Path) -> None:
    made = placl.export(run, formats=["torch"])
    assert made.folder == run / "export"
    assert sorted(made.files) == ["README.md", "export.json", "model.pt2"]
    assert made.agreement["model.pt2"].source.startswith("drawn images")
    assert (made.agreement["model.pt2"].pixels, made.agreement["model.pt2"].confidence) == (0, 0)


def test_dots_are_found_where_they_are(run: Path) -> None:
    made = export(run, formats=["onnx"])
    images = np.zeros((1, 3, 64, 64), np.float32)
    for colour, (x, y) in enumerate([(10, 12), (30, 40), (50, 20)]):
        images[0, colour, y - 2 : y + 3, x - 2 : x + 3] = 255
    keypoints, confidence = OnnxReader((made.folder / "model.onnx").read_bytes())(images)
    assert np.abs(keypoints[0] - [(10, 12), (30, 40), (50, 20)]).max() <= 1.5  # a heatmap pixel is two
    assert confidence.min() > 0.8


def test_an_earlier_export_is_replaced_only_on_demand(run: Path) -> None:
    export(run, formats=["torch"])
    (run / "export" / "model.onnx").write_bytes(b"of an earlier export")
    with pytest.raises(InputError, match=r"holds an export already\. Pass --overwrite"):
        export(run, formats=["torch"])
    (run / "export" / "notes.txt").write_text("mine")
    export(run, formats=["torch"], overwrite=True, licence="MIT")
    assert sorted(p.name for p in (run / "export").iterdir()) == ["README.md", "export.json", "model.pt2", "notes.txt"]
    assert "\nMIT\n" in (run / "export" / "README.md").read_text()


@pytest.mark.parametrize("content", [None, "", "[]", '{"weights_sha256": "x"}'])
def test_other_folders_are_never_written_to(run: Path, tmp_path: Path, content: str | None) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "README.md").write_text("something else")
    if content is not None:
        (folder / "export.json").write_text(content)
    with pytest.raises(InputError, match="other: is not empty and not an export"):
        export(run, folder, formats=["torch"], overwrite=True)
    assert (folder / "README.md").read_text() == "something else"


def test_a_file_that_disagrees_is_not_written(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(TorchReader):
        def __call__(self, images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            keypoints, confidence = super().__call__(images)
            return keypoints + (0 if self.right else 0.5), confidence

        def __init__(self, graph: object) -> None:
            super().__init__(graph)
            self.right = not isinstance(graph, bytes)

    monkeypatch.setattr(exporting, "TorchReader", Wrong)
    with pytest.raises(
        MachineError, match=r"model\.pt2: does not agree with PyTorch: keypoints differ by up to 0\.5 px"
    ):
        export(run, formats=["torch"])
    assert not (run / "export").exists()


@pytest.mark.parametrize("formats", [[], ["onnx", "tflite"]])
def test_formats_that_are_none(run: Path, formats: list[str]) -> None:
    with pytest.raises(InputError, match="name some of onnx, torch"):
        export(run, formats=formats)

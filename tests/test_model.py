"""Loading a run: what is found, and what is said when it is not."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import safetensors.torch
import torch
import yaml

import placl
from dots import DOTS, dot_picture
from placl.errors import InputError
from placl.model import Model


def test_a_run_gives_its_best_model(run: Path) -> None:
    model = placl.load(run)
    assert model.skeleton == DOTS
    assert model.stage == "round_1"
    assert model.path == run / "best"
    assert (model.config.model.name, model.config.model.input_size, model.config.train.loss) == ("dots", 64, "bce")
    assert not model.net.training


def test_the_folder_of_a_model_will_do(run: Path) -> None:
    assert Model.from_dir(str(run / "best")).sha256 == Model.from_dir(run).sha256


def test_pretrained_weights_are_not_asked_for_again(run: Path) -> None:
    file = run / "best" / "model.yaml"
    described = yaml.safe_load(file.read_text())
    described["config"]["model"] |= {"init": "pretrained", "weights": "gone.pth"}
    file.write_text(yaml.safe_dump(described))
    assert Model.from_dir(run).config.model.weights is None


def test_calling_a_model_predicts_arrays(run: Path) -> None:
    places = np.array([[[40, 20], [60, 40], [100, 30]]])
    found = Model.from_dir(run)([dot_picture(places), dot_picture(places[:, ::-1])])
    # 160 px are seen with 1.25 of context in 64 px with a heatmap pixel for two: 6.25 image pixels each
    assert np.abs(found.keypoints[0] - places[0]).max() < 3.2
    assert np.abs(found.keypoints[1] - places[0, ::-1]).max() < 3.2
    assert found.image_ids == (1, 2)


def test_one_image_needs_no_list(run: Path, tmp_path: Path) -> None:
    model, picture = Model.from_dir(run), dot_picture(np.array([[[40, 20], [60, 40], [100, 30]]]))
    assert cv2.imwrite(str(tmp_path / "a.png"), picture)
    (one,) = model(picture).keypoints
    for given in (str(tmp_path / "a.png"), tmp_path / "a.png"):
        assert len(model(given)) == 1
    assert (one == model([picture]).keypoints[0]).all()


def test_a_model_is_shown_in_a_line(run: Path) -> None:
    assert repr(Model.from_dir(run)).startswith(f"Model('{run / 'best'}': ")


def test_no_such_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such run"):
        Model.from_dir(tmp_path / "nowhere")


def test_a_file_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        Model.from_dir(tmp_path / "file")


def test_a_run_that_is_not_finished(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("preset: cpu")
    with pytest.raises(InputError, match="not finished"):
        Model.from_dir(tmp_path)


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither a run nor a model"):
        Model.from_dir(tmp_path)


def test_weights_that_are_missing(run: Path) -> None:
    (run / "best" / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"model\.safetensors: is missing"):
        Model.from_dir(run)


def test_weights_of_another_training(run: Path) -> None:
    file = run / "best" / "model.safetensors"
    safetensors.torch.save_file({"gain": torch.full((1,), 2.0)}, file)
    with pytest.raises(InputError, match=r"model\.safetensors: is damaged or of another model"):
        Model.from_dir(run)


def test_weights_cut_short(run: Path) -> None:
    file = run / "best" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"model\.safetensors: not a readable weights file"):
        Model.from_dir(run)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[1, 2]", "does not describe a model"),
        ("a: [", "cannot be read"),
        ("stage: round_1", "does not describe a model"),
    ],
)
def test_descriptions_that_are_none(run: Path, content: str, words: str) -> None:
    (run / "best" / "model.yaml").write_text(content)
    with pytest.raises(InputError, match=rf"model\.yaml: {words}"):
        Model.from_dir(run)


def test_a_description_with_keys_of_another_version(run: Path) -> None:
    file = run / "best" / "model.yaml"
    described = yaml.safe_load(file.read_text())
    described["config"]["label"]["decoder"] = "quarter"
    file.write_text(yaml.safe_dump(described))
    with pytest.raises(InputError, match=r'model\.yaml: is not of this version .* unknown key "label\.decoder"'):
        Model.from_dir(run)

"""Weights files: the round trip, the layouts of other people's checkpoints, and what is refused."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from torch import Tensor

from placl.errors import InputError, MachineError
from placl.models import KeypointNet, create, load_into, save_weights, weights_sha256

torch.set_num_threads(1)

State = dict[str, Tensor]
FRESH = ("deconv_layers.", "final_layer.")
NETWORKS = ("hrnet_w18", "simple_baseline_resnet18")


def scrambled(net: KeypointNet) -> KeypointNet:
    """Every tensor random, running statistics and counters too, so that equality means something."""
    generator = torch.Generator().manual_seed(7)
    for tensor in net.state_dict().values():
        tensor.copy_(torch.rand(tensor.shape, generator=generator) * 9)
    return net


@pytest.fixture(scope="module", params=NETWORKS)
def source(request: pytest.FixtureRequest) -> tuple[str, State]:
    return request.param, scrambled(create(request.param, keypoints=3)).state_dict()


def authors(state: State) -> dict[str, Any]:
    return {key.removeprefix("backbone."): tensor for key, tensor in state.items()}


def authors_training(state: State) -> dict[str, Any]:
    parallel = {f"module.{key}": tensor for key, tensor in authors(state).items()}
    return {"epoch": 210, "model": "pose_hrnet", "state_dict": parallel, "perf": 0.7}


def mmpose(head: str) -> Callable[[State], dict[str, Any]]:
    def layout(state: State) -> dict[str, Any]:
        renamed = {head + key if key.startswith(FRESH) else key: tensor for key, tensor in state.items()}
        return {"meta": {"epoch": 210}, "state_dict": renamed}

    return layout


LAYOUTS = {
    "ours in a .pth": dict,
    "authors": authors,
    "authors' training checkpoint": authors_training,
    "mmpose 0.x": mmpose("keypoint_head."),
    "mmpose 1.x": mmpose("head."),
    "under model": lambda state: {"model": authors(state)},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_foreign_layouts_arrive_whole(layout: str, source: tuple[str, State], tmp_path: Path) -> None:
    name, state = source
    torch.save(LAYOUTS[layout](state), tmp_path / "foreign.pth")
    net = create(name, keypoints=3)
    report = load_into(net, tmp_path / "foreign.pth")
    assert (report.loaded, report.missing, report.unexpected) == (len(state), [], [])
    assert weights_sha256(net) == weights_sha256(state)


@pytest.mark.parametrize(("backbone", "name"), [("resnet18", NETWORKS[1]), ("hrnet_w18", NETWORKS[0])])
def test_timm_imagenet_backbones(backbone: str, name: str, tmp_path: Path) -> None:
    imagenet = timm.create_model(backbone).state_dict()
    torch.save(imagenet, tmp_path / "imagenet.pth")
    net = create(name, keypoints=3)
    report = load_into(net, tmp_path / "imagenet.pth")
    assert all(key.startswith(FRESH) for key in report.missing)
    body = {key.removeprefix("backbone."): t for key, t in net.state_dict().items() if key.startswith("backbone.")}
    assert report.loaded == len(body)
    assert all(torch.equal(tensor, imagenet[key]) for key, tensor in body.items())
    assert any(key.startswith(("fc.", "classifier.")) for key in report.unexpected)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_save_and_load_is_the_identity(memory_format: torch.memory_format, tmp_path: Path) -> None:
    net = scrambled(create("tiny", keypoints=4)).to(memory_format=memory_format)
    path = tmp_path / "round_1" / "model.safetensors"
    save_weights(net, path)
    again = create("tiny", keypoints=4, weights=path)
    assert weights_sha256(again) == weights_sha256(net)
    assert [p.name for p in path.parent.iterdir()] == ["model.safetensors"]


def test_half_precision_is_widened(tmp_path: Path) -> None:
    net = create("tiny", keypoints=4)
    half = {k: t.half() if t.is_floating_point() else t for k, t in net.state_dict().items()}
    torch.save(half, tmp_path / "half.pth")
    load_into(net, tmp_path / "half.pth")
    assert net.final_layer.weight.dtype == torch.float32
    assert torch.equal(net.final_layer.weight, half["final_layer.weight"].float())


def test_a_head_of_another_skeleton_stays_fresh(tmp_path: Path) -> None:
    save_weights(scrambled(create("tiny", keypoints=17)), tmp_path / "coco.safetensors")
    net = create("tiny", keypoints=15)
    before = net.final_layer.weight.clone()
    report = load_into(net, tmp_path / "coco.safetensors")
    assert report.missing == ["final_layer.weight", "final_layer.bias"]
    assert sorted(report.unexpected) == ["final_layer.bias", "final_layer.weight"]
    assert torch.equal(net.final_layer.weight, before)


def test_files_without_batch_counters_load(tmp_path: Path) -> None:
    net = create("tiny", keypoints=2)
    old = {key: t for key, t in net.state_dict().items() if not key.endswith("num_batches_tracked")}
    torch.save(old, tmp_path / "old.pth")
    report = load_into(net, tmp_path / "old.pth")
    assert report.loaded == len(old)
    assert all(key.endswith("num_batches_tracked") for key in report.missing)


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("unpickled",)


def tiny_state(**changes: Any) -> State:
    return {**create("tiny", keypoints=2).state_dict(), **changes}


BAD_FILES: dict[str, tuple[Callable[[], Any], str]] = {
    "other shape": (
        lambda: tiny_state(**{"stem.0.weight": torch.zeros(48, 3, 3, 3)}),
        "stem.0.weight has shape (48, 3, 3, 3), the network's has (16, 3, 3, 3)",
    ),
    "nothing fits": (lambda: {"encoder.weight": torch.zeros(2)}, "nothing in it fits this network"),
    "only a head fits": (
        lambda: {"final_layer.weight": torch.zeros(2, 32, 1, 1), "conv1.weight": torch.zeros(1)},
        "nothing in it fits this network (it holds conv1.weight, ...)",
    ),
    "half a network": (
        lambda: {key: t for key, t in tiny_state().items() if not key.startswith("up.")},
        "up.0.below.weight and",
    ),
    "no tensors": (lambda: {"epoch": 3}, "no tensors in it"),
    "no dictionary": (lambda: [1, 2], "no tensors in it"),
    "code": (lambda: {"state_dict": tiny_state(), "extra": Evil()}, "not read, it holds a Python object (print)"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_are_refused_in_one_line(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, message = BAD_FILES[case]
    torch.save(make(), tmp_path / "bad.pth")
    net = create("tiny", keypoints=2)
    before = weights_sha256(net)
    with pytest.raises(InputError) as raised:
        load_into(net, tmp_path / "bad.pth")
    assert message in str(raised.value)
    assert "bad.pth" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert weights_sha256(net) == before
    assert "unpickled" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["cut.pth", "cut.safetensors"])
@pytest.mark.parametrize("content", [b"", b"not weights at all", b"PK\x03\x04 a broken zip", b"\x80\x02."])
def test_damaged_files(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=name) as raised:
        load_into(create("tiny", keypoints=2), tmp_path / name)
    assert "\n" not in str(raised.value)


def test_resnet50_file_in_a_resnet101(tmp_path: Path) -> None:
    # Only names and shapes matter here: one zero stands for each whole tensor of the smaller network.
    with torch.device("meta"):
        shapes = {key: t.shape for key, t in create("resnet50", keypoints=2).state_dict().items()}
        deeper = create("resnet101", keypoints=2)
    torch.save({key: torch.zeros(()).expand(shape) for key, shape in shapes.items()}, tmp_path / "r50.pth")
    with pytest.raises(InputError, match=r"backbone.layer3.6.conv1.weight and \d+ more tensors"):
        load_into(deeper, tmp_path / "r50.pth")


@pytest.mark.parametrize("name", ["resnet50", "hrnet_w18"])
def test_no_network_says_to_pass_a_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: Any, pretrained: bool, **__: Any) -> None:
        assert pretrained
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(timm, "create_model", unreachable)
    with pytest.raises(MachineError) as raised:
        create(name, keypoints=2, init="pretrained")
    assert "Pass model.weights=FILE" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_spares_the_download(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    save_weights(scrambled(create("simple_baseline_resnet18", keypoints=2)), tmp_path / "r18.safetensors")
    real = timm.create_model

    def offline(*args: Any, pretrained: bool, **options: Any) -> Any:
        assert not pretrained
        return real(*args, pretrained=False, **options)

    monkeypatch.setattr(timm, "create_model", offline)
    net = create("simple_baseline_resnet18", 2, init="pretrained", weights=tmp_path / "r18.safetensors")
    assert net.state_dict()["backbone.bn1.running_mean"].max() > 1  # scrambled, not fresh


def test_a_backbone_without_imagenet_weights() -> None:
    with pytest.raises(InputError, match="resnet200: timm has no pretrained weights"):
        create("simple_baseline_resnet200", keypoints=2, init="pretrained")


def test_an_unwritable_place_is_a_machine_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(MachineError, match="cannot be written"):
        save_weights(create("tiny", keypoints=2), tmp_path / "file" / "model.safetensors")


def test_sha256_of_one_tensor_by_hand() -> None:
    weight = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    expected = hashlib.sha256(b"w torch.float32 (2, 2)\n" + struct.pack("<4f", 1, 2, 3, 4)).hexdigest()
    assert weights_sha256({"w": weight}) == expected
    assert weights_sha256({"w": weight.t().contiguous().t()}) == expected  # the same values, another layout
    assert weights_sha256({"w": weight.t()}) != expected
    assert weights_sha256({"v": weight}) != expected
    assert weights_sha256({"w": weight.double()}) != expected


def test_sha256_does_not_depend_on_order() -> None:
    a, b = torch.ones(2), torch.zeros(3)
    assert weights_sha256({"a": a, "b": b}) == weights_sha256({"b": b, "a": a})

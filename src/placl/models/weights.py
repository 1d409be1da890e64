"""Reading and writing weights: our safetensors, other people's ``.pth`` files, timm's ImageNet backbones.

Nothing is unpickled: a ``.pth`` file is read with ``weights_only``.
"""

from __future__ import annotations

import difflib
import hashlib
import logging
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from placl.errors import InputError, MachineError
from placl.files import write_atomic

HEAD = "final_layer."
WRAPPERS = ("module.", "keypoint_head.", "head.")  # DataParallel; the heads of mmpose 0.x and 1.x
NESTS = ("state_dict", "model")


@dataclass(frozen=True)
class LoadReport:
    """What a file brought: ``missing`` are the network's names, ``unexpected`` the file's."""

    loaded: int
    missing: list[str]
    unexpected: list[str]


def load_into(net: nn.Module, path: Path) -> LoadReport:
    """Copy a file's tensors into ``net``; a head for another number of keypoints stays as it is."""
    own: dict[str, Tensor] = net.state_dict()
    found: dict[str, Tensor] = {}
    unexpected = []
    for key, tensor in read_state(path).items():
        target = _target(key, own)
        if target is None or _other_keypoints(target, tensor, own[target]):
            unexpected.append(key)
        elif tensor.shape != own[target].shape:
            raise InputError(
                f"{path}: {key} has shape {tuple(tensor.shape)}, the network's has {tuple(own[target].shape)}. "
                "Choose the network (model.name, model.width) that the file was made with."
            )
        else:
            found[target] = tensor
    missing = [key for key in own if key not in found]
    fresh: tuple[str, ...] = getattr(net, "fresh", ())  # what an ImageNet backbone does not bring
    _refuse_another_network(path, found, [key for key in missing if not key.startswith((HEAD, *fresh))], unexpected)
    net.load_state_dict(found, strict=False)
    return LoadReport(len(found), missing, unexpected)


def _target(key: str, own: Mapping[str, Tensor]) -> str | None:
    """Which of our tensors a foreign key names.

    Our names are mmpose's without the head's prefix; the HRNet and SimpleBaseline authors and timm have no
    ``backbone.`` in front.
    """
    bare = key
    for wrapper in WRAPPERS:
        bare = bare.removeprefix(wrapper)
    for name in (key, f"backbone.{key}", bare, f"backbone.{bare}"):
        if name in own:
            return name
    return None


def _other_keypoints(target: str, tensor: Tensor, own: Tensor) -> bool:
    """Only the number of output channels of the head differs."""
    return target.startswith(HEAD) and tensor.shape[:1] != own.shape[:1] and tensor.shape[1:] == own.shape[1:]


def _refuse_another_network(path: Path, found: Mapping[str, Tensor], missing: list[str], unexpected: list[str]) -> None:
    """Half a backbone (a ResNet-50 file in a ResNet-101) trains badly and says nothing, so it is an error here."""
    if all(key.startswith(HEAD) for key in found):
        raise InputError(
            f"{path}: nothing in it fits this network (it holds {', '.join(unexpected[:3])}, ...). "
            "Choose the network (model.name) that the file was made with."
        )
    # Files from before PyTorch 0.4.1 have no num_batches_tracked.
    lacking = [key for key in missing if not key.endswith("num_batches_tracked")]
    if lacking:
        raise InputError(
            f"{path}: {lacking[0]} and {len(lacking) - 1} more tensors of the network are not in it. "
            "Choose the network (model.name) that the file was made with."
        )


def read_state(path: Path) -> dict[str, Tensor]:
    """The tensors of a ``.safetensors`` or PyTorch file, out of whatever dictionary they are wrapped in."""
    if not path.is_file():
        raise InputError(f"{path}: no such file. Check model.weights.")
    try:
        if path.suffix == ".safetensors":
            return safetensors.torch.load_file(path)
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        culprit = re.search(r"GLOBAL (\S+)", str(error))
        reason = (
            f"it holds a Python object ({culprit[1].removeprefix('builtins.')})"
            if culprit
            else "it is damaged or holds Python objects"
        )
        raise InputError(f"{path}: not read, {reason}. Save its plain state_dict and pass that file.") from error
    except MemoryError:
        raise
    except Exception as error:  # the unpickler meets damage with whatever its opcodes happen to raise
        raise InputError(f"{path}: not a readable weights file ({type(error).__name__}). Get it again.") from error
    for nest in NESTS:  # the HRNet authors' training checkpoints also have "model", but it is a name there
        if isinstance(content, dict) and isinstance(content.get(nest), dict):
            content = content[nest]
    tensors = {str(k): v for k, v in content.items() if isinstance(v, Tensor)} if isinstance(content, dict) else {}
    if not tensors:
        raise InputError(f"{path}: no tensors in it, nor under {' or '.join(NESTS)}. Pass a file with a state_dict.")
    return tensors


def load_backbone(name: str, *, pretrained: bool, **options: Any) -> Any:
    """A timm network, with its ImageNet weights if ``pretrained``; ``options`` go to ``timm.create_model``."""
    import timm  # three seconds that commands with a tiny network need not wait

    # It would list every tensor of the classification head that we leave out.
    logging.getLogger("timm.models._builder").setLevel(logging.ERROR)
    if not timm.is_model(name):
        near = difflib.get_close_matches(name, timm.list_models(), n=1, cutoff=0.0)[0]
        raise InputError(f'model.backbone={name}: timm has no such network. Did you mean "{near}"?')
    try:
        return timm.create_model(name, pretrained=pretrained, **options)
    except TypeError:  # an option this family does not have: the caller's affair
        raise
    except Exception as error:  # hub clients change their exceptions from version to version
        if not pretrained:
            raise
        if "No pretrained weights exist" in str(error):
            raise InputError(f"{name}: timm has no pretrained weights for it. Use model.init=random.") from error
        raise MachineError(
            f"{name}: its ImageNet weights could not be downloaded ({type(error).__name__}). "
            "Pass model.weights=FILE, or model.init=random."
        ) from error


def weights_bytes(net: nn.Module) -> bytes:
    """As safetensors: nothing has to be unpickled where they arrive, and no memory is shared."""
    state = {key: tensor.detach().cpu().contiguous() for key, tensor in net.state_dict().items()}
    return safetensors.torch.save(state)


def save_weights(net: nn.Module, path: Path) -> None:
    """Write the state as safetensors; the file is whole or not there."""
    write_atomic(path, weights_bytes(net))


def weights_sha256(net_or_state: nn.Module | Mapping[str, Tensor]) -> str:
    """One hash of all names, types, shapes and values, whatever the device and memory format."""
    state = net_or_state.state_dict() if isinstance(net_or_state, nn.Module) else net_or_state
    digest = hashlib.sha256()
    for key in sorted(state):
        tensor = state[key].detach().cpu().contiguous()
        digest.update(f"{key} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        if tensor.dtype in (torch.bfloat16, torch.float16):
            tensor = tensor.float()  # numpy has no bfloat16; widening loses nothing
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()

"""Keypoint networks by name, their weights, and (in ``codec``) the way from heatmaps to coordinates and back."""

from placl.models import fastpose, hrnet, simple_baseline, tiny
from placl.models.weights import LoadReport, load_into, save_weights, weights_sha256
from placl.models.zoo import KeypointNet, ModelSpec, create, names, register

__all__ = [
    "KeypointNet",
    "LoadReport",
    "ModelSpec",
    "create",
    "fastpose",
    "hrnet",
    "load_into",
    "names",
    "register",
    "save_weights",
    "simple_baseline",
    "tiny",
    "weights_sha256",
]

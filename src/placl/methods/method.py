"""What every method is: a series of trainings that ends with the network it is judged by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module

from placl.config import Config
from placl.lab import Lab
from placl.stages import Stage

PLACES = {
    "placl": "placl.rounds",
    "supervised": "placl.methods.supervised",
    "source_only": "placl.methods.supervised",  # its name across domains
    "pl": "placl.methods.pl",
    "cl": "placl.methods.cl",
    "elt": "placl.methods.elt",
    "gen": "placl.methods.gen",
    "sskl": "placl.methods.sskl",
    "posecons": "placl.methods.posecons",
    "posedual": "placl.methods.posedual",
    "multiaugs": "placl.methods.multiaugs",
    "mean_teacher": "placl.methods.mean_teacher",
    "domain_confusion": "placl.methods.domain_confusion",
    "residual_transfer": "placl.methods.residual_transfer",
    "cyclegan_pl": "placl.methods.cyclegan_pl",
    "ws_cda_pplo": "placl.methods.ws_cda_pplo",
}


@dataclass(frozen=True)
class Method:
    run: Callable[[Lab], Iterator[Stage]]  # gives its stages as they are finished
    stages: Callable[[Config], dict[str, Config]]  # the trainings by name, in order; the last is what it is judged by


def method_of(config: Config) -> Method:
    """The METHOD of the module that a configuration's method is in."""
    method: Method = import_module(PLACES[config.method]).METHOD
    return method

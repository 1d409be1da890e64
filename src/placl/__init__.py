"""placl: keypoint models from a few labelled and many unlabelled images.

The public names. Each is imported when it is first asked for, so that ``placl --help`` need not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from placl import version

if TYPE_CHECKING:
    from placl.api import Result, train
    from placl.config import Config
    from placl.config import load as load_config
    from placl.curriculum.curriculum import Curriculum
    from placl.data.pool import Pool
    from placl.data.skeleton import Skeleton
    from placl.data.splits import Split
    from placl.errors import InputError, MachineError
    from placl.evaluation import evaluate
    from placl.exporting.export import export
    from placl.learn.pseudo_labels import PseudoLabels
    from placl.model import load
    from placl.planning import plan
    from placl.prediction import predict

__version__ = version.VERSION

# No module may have the name of a function here: importing it would put the module in the function's place.
_HOMES = {
    "Config": "placl.config",
    "Curriculum": "placl.curriculum.curriculum",
    "InputError": "placl.errors",
    "MachineError": "placl.errors",
    "Pool": "placl.data.pool",
    "PseudoLabels": "placl.learn.pseudo_labels",
    "Result": "placl.api",
    "Skeleton": "placl.data.skeleton",
    "Split": "placl.data.splits",
    "evaluate": "placl.evaluation",
    "export": "placl.exporting.export",
    "load": "placl.model",
    "load_config": "placl.config:load",
    "plan": "placl.planning",
    "predict": "placl.prediction",
    "train": "placl.api",
}

__all__ = [
    "Config",
    "Curriculum",
    "InputError",
    "MachineError",
    "Pool",
    "PseudoLabels",
    "Result",
    "Skeleton",
    "Split",
    "__version__",
    "evaluate",
    "export",
    "load",
    "load_config",
    "plan",
    "predict",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'placl' has no attribute {name!r}")
    module, _, original = _HOMES[name].partition(":")
    value = getattr(import_module(module), original or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""A configuration is a preset (``presets/*.yaml``, complete and commented), a file over it, and overrides over that.

What is wrong is said in one line that names the file or the override it came from, and the nearest valid name.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from placl.config import PRESETS, Config, Data, Source, Teacher
from placl.errors import InputError
from placl.plain_yaml import load_yaml

PATHS = {"root", "labeled", "images", "unlabeled", "source", "target", "boxes", "val", "test", "corrections", "cache"}
SHORT = {"source": "data.source", "target": "data.target"}  # for the command line
PAPER = "placl-paper"  # a name for method: placl with what the paper's algorithm has, whatever the preset has instead
PAPERS: dict[str, Any] = {
    "train": {"labelled_share": None},
    "teacher": dict.fromkeys(Teacher.model_fields),
    "search": {"searcher": "ppo2", "initial": 0.5, "rise": 0.0},
    "rounds": {"cross_training": True, "continued": None, "keep": "last"},
    "reward": {"source": "val"},
}
SEARCHING = {"steps", "samples", "sigma", "lr", "clip", "updates", "residual_support", "pick"}  # beside proxy's
TAGS = ("function", "constrained", "~")  # what pydantic puts into the place of a value beside its keys


def load(file: Path | None = None, overrides: dict[str, Any] | None = None) -> Config:
    """A preset, a YAML file over it, and overrides (``{"train.lr": 0.01}``) over that.

    Keys are those of the presets; ``{"preset": "paper"}`` names another than ``cpu``, ``{"data": "placl.yaml"}`` a file
    of the data. What is wrong is an ``InputError`` that names the nearest valid key or value.
    """
    overrides = overrides or {}
    own = {} if file is None else _read_yaml(file)
    if isinstance(own.get("data"), str):  # a dataset file, relative to the file that names it
        own["data"] = _dataset_file((file.parent if file else Path()) / own["data"])
    if isinstance(overrides.get("data"), str):  # before keys of the section, in whatever order they were given
        own["data"] = _dataset_file(Path(overrides["data"]))
    if isinstance(own.get("execute"), str):  # the section's first key stands for it
        own["execute"] = {"where": own["execute"]}
    for key, value in overrides.items():
        if key == "execute" and isinstance(value, str):
            key = "execute.where"
        key = SHORT.get(key, key)
        if key in own and isinstance(value, dict) and isinstance(own[key], dict):  # a section beside keys of its own
            own[key] = _merge(own[key], value)
        elif key != "data" or not isinstance(value, str):
            _set(own, key.split("."), value)
    _score_by_protocol(own)
    preset = own.get("preset", "cpu")
    if preset not in PRESETS:
        where = _blame("preset", preset, file, overrides)
        raise InputError(f'{where}: preset "{preset}" is unknown. {_nearest(str(preset), PRESETS, "Known")}')
    base = _suited(read_preset(preset), own)
    if own.get("method") == PAPER:
        base, own = _merge(base, PAPERS), own | {"method": "placl"}
    try:
        config = _validated(base, own)
    except ValidationError as error:
        raise InputError(_explain(error.errors()[0], file, overrides)) from None
    _search_is_read(own, config, file, overrides)
    return config


def _suited(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """The preset, less what would surprise beside what was named."""
    changes: dict[str, Any] = {"teacher": {}}
    teacher = base["teacher"]
    if _number(own, "model", "input_size", 0) > (teacher["input_size"] or math.inf):  # no network labels that sees less
        changes["teacher"]["input_size"] = None
    if _number(own, "train", "batch", math.inf) < (teacher["first_batch"] or 0):  # or asks for more memory
        changes["teacher"]["first_batch"] = None
    if own.get("method") == "pl":  # selects nothing, unless search.searcher=constant asks for a threshold
        changes["search"] = {"searcher": "ppo2"}
    return _merge(base, changes)


def _number(tree: dict[str, Any], section: str, key: str, otherwise: float) -> float:
    value = _get(tree, section).get(key)
    return value if isinstance(value, (int, float)) else otherwise


def _validated(base: dict[str, Any], own: dict[str, Any]) -> Config:
    try:
        return Config.model_validate(_merge(base, own))
    except ValidationError as error:
        problem = error.errors()[0]
        if problem["type"] != "misfit" or problem["ctx"]["keys"][0] != "proxy.epochs" or _has(own, "proxy.epochs"):
            raise
    # A preset's proxy suits the preset's epochs. Who has named other epochs and no proxy gets one that fits.
    return Config.model_validate(_merge(base, _merge(own, {"proxy": {"epochs": problem["ctx"]["groups"]}})))


def parse_override(text: str) -> tuple[str, Any]:
    """``train.lr=0.01`` -> ("train.lr", 0.01); values are YAML."""
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise InputError(f'"{text}" is not of the form key=value, e.g. train.lr=0.001.')
    try:
        return key.strip(), load_yaml(value)
    except yaml.YAMLError:
        raise InputError(f'the value in "{text}" is not valid YAML.') from None


def read_preset(name: str) -> dict[str, Any]:
    text = resources.files("placl.presets").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    preset: dict[str, Any] = yaml.safe_load(text)
    return preset


def dump(config: Config) -> str:
    """The configuration as YAML, every key named."""
    return yaml.safe_dump(json.loads(config.model_dump_json()), sort_keys=False)


def flat(config: Config) -> dict[str, Any]:
    """Every key with its value, as ``{"train.lr": 0.001}``; paths are text."""
    return _flatten(json.loads(config.model_dump_json()))


def differences(old: Config, new: Config) -> list[str]:
    """Keys that differ and change results, as ``train.lr: 0.001 -> 0.01``."""
    without_effect = {"execute.where", "execute.workers", "data.cache", "ray.address", "ray.retries", "track"}
    a, b = flat(old), flat(new)
    return [f"{k}: {a[k]} -> {b[k]}" for k in a if k not in without_effect and a[k] != b[k]]


def _read_yaml(file: Path) -> dict[str, Any]:
    try:
        content = load_yaml(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}).") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark else ""
        raise InputError(f"{file}: is not valid YAML{line}.") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise InputError(f"{file}: must be a mapping of keys to values, as in placl/presets/cpu.yaml.")
    # A section whose keys are all commented out reads as null.
    return {key: {} if value is None and key in _sections() else value for key, value in content.items()}


def _dataset_file(file: Path) -> dict[str, Any]:
    """The data section in a file of its own, ``placl.yaml``, whose paths are relative to it."""
    content = _read_yaml(file)
    content = content["data"] if set(content) == {"data"} and isinstance(content["data"], dict) else content
    unknown = [key for key in content if key not in Data.model_fields]
    if unknown:
        raise InputError(f'{file}: unknown key "{unknown[0]}". {_nearest(str(unknown[0]), Data.model_fields, "Known")}')
    return {key: _beside(file, value) if key in PATHS else value for key, value in content.items()}


def _beside(file: Path, value: Any) -> Any:
    """Paths, alone, in lists or in the mapping of a source, made relative to a file's folder."""
    if isinstance(value, str):
        return str(file.parent / Path(value).expanduser())
    if isinstance(value, list):
        return [_beside(file, item) for item in value]
    if isinstance(value, dict):
        return {key: _beside(file, item) if key in ("path", "images") else item for key, item in value.items()}
    return value


def _score_by_protocol(own: dict[str, Any]) -> None:
    """A dataset of the paper is scored as in the paper, unless another metric is named."""
    data, reward = own.get("data"), own.get("reward", {})
    name = data.get("protocol") if isinstance(data, dict) else None
    if not isinstance(name, str) or not isinstance(reward, dict):
        return
    from placl.data.protocols import protocol_named

    protocol = protocol_named(name)
    if reward.get("metric", protocol.metric) != protocol.metric:
        return
    own["reward"] = {"metric": protocol.metric, **({"alpha": protocol.alpha} if protocol.alpha else {}), **reward}


def _search_is_read(own: dict[str, Any], config: Config, file: Path | None, overrides: dict[str, Any]) -> None:
    """Who sets up a search where the preset, or a whole file below the overrides, has none is told so."""
    given: dict[str, Any] = {}
    for key, value in overrides.items():
        if key.partition(".")[0] in ("search", "proxy", "rounds"):
            _set(given, key.split("."), value)
    layers = [layer for layer in (own, given) if not _has(layer, "search.searcher")]
    named = next(filter(None, map(_of_a_search, layers)), [])
    if not named or config.method != "placl" or config.search.searcher != "constant":
        return
    where = f"{file}: " if file is not None and _given(named[0], overrides) is None else ""
    raise InputError(
        f"{where}{named[0]} is not read: search.searcher=constant does not search. Set search.searcher=ppo2 too, or "
        f"leave {'it' if len(named) == 1 else 'them'} out."
    )


def _of_a_search(tree: dict[str, Any]) -> list[str]:
    """The keys that nothing but a search reads."""
    search, proxy, rounds = (_get(tree, name) for name in ("search", "proxy", "rounds"))
    named = [f"search.{key}" for key in search if key in SEARCHING]
    named += [f"proxy.{key}" for key, value in proxy.items() if value is not None]  # null: nothing cheaper
    return named + (["rounds.finish"] if rounds.get("finish") == "search" else [])


def _set(tree: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        node = tree.setdefault(part, {})
        if not isinstance(node, dict):
            raise InputError(f'"{".".join(path)}": "{part}" is a value, not a section.')
        tree = node
    tree[path[-1]] = value


def _has(tree: dict[str, Any], key: str) -> bool:
    section, _, name = key.partition(".")
    return name in _get(tree, section)


def _get(tree: dict[str, Any], section: str) -> dict[str, Any]:
    """A section, empty where it is not there or none."""
    found = tree.get(section)
    return found if isinstance(found, dict) else {}


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        merged[key] = _merge(base[key], value) if both else value
    return merged


def _flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= _flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _explain(problem: ErrorDetails, file: Path | None, overrides: dict[str, Any]) -> str:
    """The problem in one line, with the nearest valid name for an unknown key or value."""
    if problem["type"] == "misfit":
        message = str(problem["ctx"]["message"])  # it begins with the key
        ours = file is None or any(_given(key, overrides) for key in problem["ctx"]["keys"])
        return message if ours else f"{file}: {message}"
    *path, last = map(str, problem["loc"] or ("",))
    parts = [part for part in path if not part.startswith(TAGS)]
    if problem["type"] == "extra_forbidden" or not last.startswith(TAGS):  # an unknown key may look like a tag
        parts.append(last)
    key, value = ".".join(parts), problem["input"]
    where = _blame(key, value, file, overrides)
    if problem["type"] == "extra_forbidden":
        valid = [k.rpartition(".")[2] for k in _known_keys() if k.rpartition(".")[0] == ".".join(parts[:-1])]
        valid = valid or list(Source.model_fields)  # in a list of sources
        if parts == [key] and key in overrides:  # files do not read SHORT
            valid += SHORT
        return f'{where}: unknown key "{key}". {_nearest(parts[-1], valid, "Known here")}'
    if problem["type"] == "literal_error":
        valid = [str(v) for v in _literal(parts)] or [problem["ctx"]["expected"]]
        valid += [PAPER] if key == "method" else []
        meant = f" Did you mean {key}s={value}?" if f"{key}s" in _known_keys() and str(value).isdigit() else ""
        return f'{where}: "{value}" is not a value of {key}.{meant} {_nearest(str(value), valid, "Known")}'
    reason = f"{problem['msg'][0].lower()}{problem['msg'][1:]}."
    if _given(key, overrides) == key:
        return f"{where}: {reason}"
    return f"{where}: {key}{'' if problem['type'] == 'missing' else f' = {value!r}'}: {reason}"


def _nearest(name: str, valid: Iterable[str], otherwise: str) -> str:
    valid = list(valid)
    near = difflib.get_close_matches(name, valid, n=1, cutoff=0.4)
    return f'Did you mean "{near[0]}"?' if near else f"{otherwise}: {', '.join(valid)}."


def _given(key: str, overrides: dict[str, Any]) -> str | None:
    """The override that set ``key``, a part of it, or the section it is in; the last one counts."""
    full = {k: SHORT.get(k, k) for k in overrides}
    related = [k for k, own in full.items() if f"{own}.".startswith(f"{key}.") or f"{key}.".startswith(f"{own}.")]
    return related[-1] if related else None


def _blame(key: str, value: Any, file: Path | None, overrides: dict[str, Any]) -> str:
    """Where a value came from: ``train.lr=0.1`` if it was an override, else the file."""
    given = _given(key, overrides)
    if given is None:
        return str(file or "preset")
    if not isinstance(overrides[given], dict):
        key, value = given, overrides[given]
    return f"{key}={value if isinstance(value, str) else json.dumps(value, default=str)}"


def _sections() -> set[str]:
    return {key.rpartition(".")[0] for key in _known_keys()}


def _known_keys(model: type[BaseModel] = Config, prefix: str = "") -> list[str]:
    keys = []
    for name, field in model.model_fields.items():
        keys.append(prefix + name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            keys += _known_keys(field.annotation, f"{prefix}{name}.")
    return keys


def _literal(path: list[str]) -> tuple[Any, ...]:
    model: Any = Config
    for part in path:
        model = Source if part.isdigit() else model.model_fields[part].annotation
    return get_args(model)

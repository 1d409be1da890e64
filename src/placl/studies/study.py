"""A study: which rows, on which datasets, with how many labels and seeds; and the runs that it expands to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from placl import config as configuration
from placl.config import Config
from placl.data.protocols import PROTOCOLS
from placl.errors import InputError
from placl.plain_yaml import load_yaml

GRIDS = ("table1", "table2", "table3", "table4", "table5", "table6", "fig3a", "fig3b")
SCALES = ("cpu", "paper")
LEARNS_FROM_LABELS_ALONE = "supervised"
DATASET_FILE = "placl.yaml"


class Row(BaseModel):
    """A method with its settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    settings: dict[str, Any]
    seeds: tuple[int, ...] | None = None  # some of the study's; None: all

    @property
    def is_supervised(self) -> bool:
        return bool(self.settings.get("method") == LEARNS_FROM_LABELS_ALONE)


class Study(BaseModel):
    """A grid. Its file has these keys; `rows` are names of rows.yaml, or mappings with a `name` and settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    datasets: tuple[str, ...]
    fractions: tuple[float, ...] = Field(min_length=1)
    seeds: tuple[int, ...] = Field((0, 1, 2), min_length=1)
    rows: tuple[Row, ...] = Field(min_length=1)
    variants: dict[str, dict[str, Any]] = {}  # name -> settings: every row once for each
    settings: dict[str, Any] = {}  # of all runs
    every_round: bool = False  # a row for each round of a run
    scored_on: Literal["test", "val"] = "test"  # what tables are of; val: to choose settings by, test data stay unseen
    across_domains: bool = False  # what is unlabelled is of another domain: all rows have all labels of the source

    def narrowed(self, **choice: Sequence[Any] | None) -> Study:
        """With some of its datasets, fractions, seeds or rows (by name); any fraction and seed will do."""
        update: dict[str, Any] = {}
        for key, wanted in choice.items():
            if not wanted:
                continue
            if key in ("fractions", "seeds"):
                update[key] = tuple(wanted)
                continue
            known = {getattr(item, "name", item): item for item in getattr(self, key)}
            wanted = [one for name in wanted for one in _targets_of(name, known)]
            unknown = [name for name in wanted if name not in known]
            if unknown:
                raise InputError(f'study {self.name} has no "{unknown[0]}" among its {key}: {", ".join(known)}.')
            update[key] = tuple(known[name] for name in wanted)
        return self.model_copy(update=update)


@dataclass(frozen=True)
class RunSpec:
    """A run of a study: where it stands in the table, what is trained, and its folder."""

    dataset: str
    method: str
    fraction: float
    seed: int
    config: Config
    out: Path

    @property
    def name(self) -> str:
        return f"{self.dataset}, {self.method}, {100 * self.fraction:g} %, seed {self.seed}"


def read_study(name: str) -> Study:
    """One of the paper's by name, or a file."""
    if name in GRIDS:
        text, where = resources.files("placl.studies").joinpath(f"grids/{name}.yaml").read_text("utf-8"), name
    elif Path(name).suffix.lower() in (".yaml", ".yml"):
        try:
            text, where = Path(name).read_text("utf-8"), name
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{name}: cannot be read ({error}).") from None
    else:
        near = get_close_matches(name, GRIDS, n=1)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        raise InputError(f'study "{name}" is unknown.{hint} Known are {", ".join(GRIDS)}; others are files.yaml.')
    try:
        content = load_yaml(text)
    except yaml.YAMLError as error:
        raise InputError(f"{where}: is not valid YAML ({' '.join(str(error).split())}).") from None
    if not isinstance(content, dict):
        raise InputError(f"{where}: must be a mapping of keys to values.")
    content.setdefault("name", Path(name).stem)
    content["rows"] = [_row(where, given) for given in content.get("rows") or []]
    try:
        return Study.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{where}: {'.'.join(map(str, first['loc']))}: {first['msg']}.") from None


def known_rows() -> dict[str, Row]:
    text = resources.files("placl.studies").joinpath("rows.yaml").read_text("utf-8")
    return {name: _described(name, dict(content)) for name, content in yaml.safe_load(text).items()}


def dataset_of(name: str) -> str:
    """``animalpose`` of ``animalpose_to_cat``: the dataset that a target is a class of."""
    return name.partition("_to_")[0]


def _targets_of(name: str, known: Collection[str]) -> list[str]:
    """All targets of a dataset that is named without one."""
    return [one for one in known if name not in known and dataset_of(one) == name] or [name]


def _row(where: str, given: Any) -> Row:
    known = known_rows()
    if isinstance(given, dict) and isinstance(given.get("name"), str):
        own = {key: value for key, value in given.items() if key != "name"}
        base = known.get(given["name"]) if "method" not in own else None  # a known row, with something changed
        return _described(given["name"], {"title": base.title, **base.settings, **own} if base else own)
    if given not in known:
        near = get_close_matches(str(given), known, n=1)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        raise InputError(
            f'{where}: row "{given}" is unknown.{hint} Name one of rows.yaml, or describe it: {{name: ...}}.'
        )
    return known[given]


def _described(name: str, content: dict[str, Any]) -> Row:
    return Row(name=name, title=str(content.pop("title", name)), seeds=content.pop("seeds", None), settings=content)


def scale_settings(scale: str, dataset: str = "") -> dict[str, Any]:
    """``paper``: the paper's; ``cpu``: a small network on the paper's full splits, for two cores.

    What a dataset needs of its own, such as its augmentation, stands under ``datasets`` and holds for all its rows.
    """
    if scale not in SCALES:
        raise InputError(f'scale "{scale}" is unknown. Known are {", ".join(SCALES)}.')
    text = resources.files("placl.studies").joinpath(f"scales/{scale}.yaml").read_text("utf-8")
    settings: dict[str, Any] = yaml.safe_load(text)
    own = settings.pop("datasets", {})
    return {**settings, **own.get(dataset, own.get(dataset_of(dataset), {}))}


def expand(
    study: Study,
    data: Mapping[str, Path],
    out: Path,
    *,
    scale: str = "cpu",
    overrides: Mapping[str, Any] | None = None,
) -> list[RunSpec]:
    """The runs, early rows first, each with all its datasets, fractions and seeds before the next begins."""
    places = {name: place for name in study.datasets if (place := data.get(name) or data.get(dataset_of(name)))}
    missing = [name for name in study.datasets if name not in places]
    if missing:
        raise InputError(f"study {study.name}: where is {missing[0]}? Name its folder or {DATASET_FILE}: "
                         f"--data {missing[0]}=PATH, or leave it out with --datasets.")  # fmt: skip
    runs = []
    for row, variant in _rows(study):
        for dataset in study.datasets:
            for fraction in study.fractions:
                if fraction == 1 and not (row.is_supervised or study.across_domains):
                    continue  # there is nothing unlabelled
                for seed in (one for one in study.seeds if row.seeds is None or one in row.seeds):
                    settings = {
                        **scale_settings(scale, dataset),
                        **_data_settings(dataset, places[dataset]),
                        **study.settings,
                        **row.settings,
                        **study.variants.get(variant, {}),
                        **(overrides or {}),
                        "data.label_fraction": fraction,
                        "data.split_seed": seed,
                        "seed": seed,
                    }
                    method = row.name + (f"+{variant}" if variant else "")
                    folder = out / dataset / f"{100 * fraction:g}" / f"seed{seed}" / method
                    runs.append(RunSpec(dataset, method, fraction, seed, configuration.load(None, settings), folder))
    return runs


def _rows(study: Study) -> Sequence[tuple[Row, str]]:
    return [(row, variant) for row in study.rows for variant in study.variants or ("",)]


def _data_settings(name: str, path: Path) -> dict[str, Any]:
    """A dataset file, or the folder of a protocol; scored as the protocol of that name is."""
    file = path if path.suffix.lower() in (".yaml", ".yml") else path / DATASET_FILE
    known = PROTOCOLS.get(name)
    settings: dict[str, Any] = {}
    if known is not None:
        settings = {"reward.metric": known.metric, **({"reward.alpha": known.alpha} if known.alpha else {})}
    if file.is_file():
        return {"data": str(file), **settings}
    if known is None:
        raise InputError(
            f"{path}: holds no {DATASET_FILE}, and {name} is no dataset of the paper ({', '.join(PROTOCOLS)})."
        )
    if not path.is_dir():
        raise InputError(f"{path}: is neither a {DATASET_FILE} nor the folder of {known.title}.")
    return {"data.protocol": name, "data.root": str(path), **settings}

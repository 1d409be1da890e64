"""A study: which rows, on which datasets, with how many labels and seeds; and the runs that it expands to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from placl import config as configuration
from placl.config import Config, Section
from placl.data.protocols import PROTOCOLS
from placl.errors import InputError
from placl.plain_yaml import load_yaml

GRIDS = ("table1", "table2", "table3", "table4", "table5", "table6", "fig3a", "fig3b")
SCALES = ("cpu", "paper")
LEARNS_FROM_LABELS_ALONE = "supervised"
DATASET_FILE = "placl.yaml"
PLUS = "+"  # between a row and its variant
OF_THE_GRID = {"seed": "seeds", "data.split_seed": "seeds", "data.label_fraction": "fractions"}  # and what sets them


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
    scales: dict[str, dict[str, Any]] = {}  # scale -> settings of all runs at it
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
                update[key] = tuple(dict.fromkeys(wanted))
                continue
            known = {getattr(item, "name", item): item for item in getattr(self, key)}
            wanted = [one for name in wanted for one in _targets_of(name, known)]
            unknown = [name for name in wanted if name not in known]
            if unknown:
                raise InputError(f'study {self.name} has no "{unknown[0]}" among its {key}: {", ".join(known)}.')
            update[key] = tuple(known[name] for name in dict.fromkeys(wanted))
        return self.model_copy(update=update)

    def around(self, part: Study) -> Study:
        """All rows on the datasets of a part, with the fractions and seeds of either."""
        both = {key: tuple(dict.fromkeys(getattr(self, key) + getattr(part, key))) for key in ("fractions", "seeds")}
        return self.model_copy(update={"datasets": part.datasets, **both})

    @field_validator("variants", mode="before")
    @classmethod
    def _named(cls, variants: Any) -> Any:
        """By strings, also where YAML has numbers: ``64: {model.input_size: 64}``."""
        return {str(name): own for name, own in variants.items()} if isinstance(variants, dict) else variants

    @field_validator("fractions", "seeds", "datasets")
    @classmethod
    def _once(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(values))


@dataclass(frozen=True)
class RunSpec:
    """A run of a study: where it stands in the table, what is trained, and its folder."""

    dataset: str
    method: str
    fraction: float
    seed: int
    config: Config
    out: Path
    tested: bool = True  # whether test images are scored

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
    if not isinstance(content.get("rows"), list):
        raise InputError(f"{where}: rows: must be a list of names and descriptions.")
    try:
        rows = [_row(where, given) for given in content["rows"]]
        twice = [row.name for number, row in enumerate(rows) if row.name in {other.name for other in rows[:number]}]
        if twice:
            raise InputError(f'{where}: row "{twice[0]}" is there twice. Give one of them another name.')
        return Study.model_validate({**content, "rows": rows})
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
    """A known one by its name, a known one with something changed, or one with a method of its own."""
    known = known_rows()
    own = dict(given) if isinstance(given, dict) else {}
    name = own.pop("name", None) if isinstance(given, dict) else given
    if not isinstance(name, str):
        raise InputError(f'{where}: row "{given}" has no name. Describe it: {{name: ..., method: ...}}.')
    if "method" in own:
        return _described(name, own)
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        raise InputError(
            f'{where}: row "{name}" is unknown.{hint} Name one of rows.yaml, or describe it: '
            "{name: ..., method: ...}."
        )
    return _described(name, {"title": known[name].title, **known[name].settings, **own})


def _described(name: str, content: dict[str, Any]) -> Row:
    title, seeds = str(content.pop("title", name)), content.pop("seeds", None)
    return Row(name=name, title=title, seeds=seeds, settings=_dotted(content))


def _dotted(settings: Mapping[str, Any]) -> dict[str, Any]:
    """``{"train.lr": 0.1}`` also where a section is given as ``{"train": {"lr": 0.1}}``, so that layers add up."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        kind = Config.model_fields[key].annotation if key in Config.model_fields else None
        is_section = isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, Section)
        flat |= {f"{key}.{name}": own for name, own in value.items()} if is_section else {key: value}
    return flat


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
        where = " ".join(f"--data {name}=PATH" for name in missing)
        raise InputError(f"study {study.name}: where is {', '.join(missing)}? Name the folder or {DATASET_FILE}: "
                         f"{where}, or choose others with --datasets.")  # fmt: skip
    common, over = _dotted(study.scales.get(scale, {})) | _dotted(study.settings), _dotted(overrides or {})
    for key, by in OF_THE_GRID.items():
        if key in common or key in over:
            raise InputError(f"{key}: a study sets it by its {by}. Choose them (--{by}).")
    runs = []
    for row, variant in _rows(study):
        for dataset in study.datasets:
            for fraction in study.fractions:
                for seed in (one for one in study.seeds if row.seeds is None or one in row.seeds):
                    settings = {
                        **scale_settings(scale, dataset),
                        **_data_settings(dataset, places[dataset]),
                        **common,
                        **row.settings,
                        **_dotted(study.variants.get(variant, {})),
                        **over,
                        "data.label_fraction": fraction,
                        "data.split_seed": seed,
                        "seed": seed,
                    }
                    config = configuration.load(None, settings)
                    if fraction == 1 and not (row.is_supervised or study.across_domains or config.data.unlabeled):
                        continue  # there is nothing unlabelled
                    method = method_name(row.name, variant)
                    folder = out / dataset / f"{100 * fraction:g}" / f"seed{seed}" / method
                    tested = study.scored_on == "test"
                    runs.append(RunSpec(dataset, method, fraction, seed, config, folder, tested))
    return runs


def method_name(row: str, variant: str) -> str:
    """What a row is called in results."""
    return f"{row}{PLUS}{variant}" if variant else row


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
    if not path.exists():
        raise InputError(f"{path}: is not there. --data {name}= takes a {DATASET_FILE} or a folder.")
    if known is None:
        raise InputError(
            f"{path}: holds no {DATASET_FILE}, and {name} is no dataset of the paper ({', '.join(PROTOCOLS)})."
        )
    if not path.is_dir():
        raise InputError(f"{path}: is neither a {DATASET_FILE} nor the folder of {known.title}.")
    return {"data.protocol": name, "data.root": str(path), **settings}

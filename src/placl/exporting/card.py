"""The model card: what the model localises, what it was made from, how it scored, and how to use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placl.config import Config
from placl.curriculum.fixed import first_curriculum
from placl.exporting.facts import Facts, sources
from placl.exporting.markdown import plain, table
from placl.methods.method import method_of
from placl.model import Model
from placl.stages import alike
from placl.version import VERSION

UNKNOWN = "-"

ONNX_SNIPPET = """import json, cv2, numpy as np, onnxruntime

session = onnxruntime.InferenceSession("model.onnx")
about = json.load(open("export.json", encoding="utf-8"))
crop = cv2.imread("crop.png")[:, :, ::-1]  # RGB
crop = cv2.resize(crop, (about["input"]["size"],) * 2, interpolation=cv2.INTER_AREA)
images = crop.transpose(2, 0, 1)[None].astype(np.float32)  # (1, 3, S, S) in 0 to 255
keypoints, confidence = session.run(None, {"images": images})  # (1, K, 2) pixels x, y of the crop; (1, K)
for name, (x, y), sure in zip(about["keypoints"], keypoints[0], confidence[0]):
    print(f"{name}: {x:.1f}, {y:.1f} ({sure:.2f})")
"""

TORCH_SNIPPET = """import torch

program = torch.export.load("model.pt2").module()
keypoints, confidence = program(torch.from_numpy(images))  # images as above
"""


def card(model: Model, facts: Facts, files: Sequence[str], licence: str) -> str:
    """The whole README.md of an export."""
    parts = [
        f"# {plain(facts.name)}",
        _summary(model, facts),
        "## Scores",
        _scores(model, facts),
        "## Data",
        _data(facts),
        "## Training",
        _training(model, facts),
        "## Intended use and limits",
        _limits(model, facts),
        "## Licence",
        _licence(licence),
        "## Use",
        _use(model, files),
    ]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _summary(model: Model, facts: Facts) -> str:
    labels = facts.instances.get("labelled")
    on = f" from {labels:,} labelled instances" if labels else ""
    names = ", ".join(plain(name) for name in model.skeleton.keypoints)
    return f"Localises {len(model.skeleton)} keypoints of one object in an image: {names}.\n\nTrained{on} by placl."


def _scores(model: Model, facts: Facts) -> str:
    metric = facts.row.get("metric") or next((found["metric"] for found in facts.scores.values()), None)
    if metric is None:
        return "Not known here: exported without the folder of the run that made these weights."
    parts = {"val": "validation", "test": "test"}
    own = {part: facts.row.get(part) or facts.scores.get(part, {}).get("value") for part in parts}
    measured = {part: title for part, title in parts.items() if own[part] not in (None, "")}
    if not measured:
        return "Not measured: the run had neither validation nor test instances."
    rows = [(f"{metric}, all", *(_number(own[part]) for part in measured))]
    for name in model.skeleton.keypoints:
        rows.append((name, *(_number(_of_keypoint(facts, part, name)) for part in measured)))
    instances = ", ".join(
        f"{facts.scores[part]['instances']:,} {title} instances"
        for part, title in measured.items()
        if part in facts.scores
    )
    by = f" Keypoints by {plain(_counted_by(model.config))}, in percent." if facts.scores else " In percent."
    text = table(["", *measured.values()], rows) + (f"\nOn {instances}.{by}" if instances else f"\n{by.strip()}")
    if "val" in measured and steered(facts.config):
        text += " The validation set steered the training, so that its score is too high by an unknown amount."
    return text + ("" if "test" in measured else " No test set was kept apart.")


def steered(config: Config | None) -> bool:
    """By rewards of a search, or by the choice of the network."""
    if config is None:
        return False
    *others, last = method_of(config).stages(config).values()
    chosen = config.rounds.keep == "best" and any(alike(one, last) for one in others)
    return chosen or config.method == "cl" or (config.searching and config.reward.source == "val")


def _search(config: Config) -> str:
    search = config.search
    if config.searching:
        return f"search by {search.searcher} in {search.steps} x {search.samples} trainings a round"
    thresholds = first_curriculum(search, config.groups).thresholds
    return f"no search, thresholds from {thresholds[0]:.2g} to {thresholds[-1]:.2g}"


def _counted_by(config: Config) -> str:
    return f"{'PCKh' if config.reward.metric == 'pckh' else 'PCK'}@{config.reward.alpha:g}"


def _of_keypoint(facts: Facts, part: str, name: str) -> Any:
    return facts.scores.get(part, {}).get("per_keypoint", {}).get(name)


def _number(value: Any) -> str:
    return UNKNOWN if value in (None, "") else f"{float(value):.2f}"


def _data(facts: Facts) -> str:
    if facts.config is None or not facts.instances:
        return "Not known here."
    count = facts.instances
    halves = count["half_1"] + count["half_2"]
    pseudo = UNKNOWN if facts.pseudo is None else f"{facts.pseudo:,}"
    rows = [
        ("labelled, trained on", f"{count['labelled']:,}"),
        ("unlabelled", f"{halves:,}"),
        ("of these pseudo-labelled for this network", pseudo),
        ("validation (labelled)", f"{count['val']:,}"),
        ("test (labelled, for scores only)", f"{count['test']:,}"),
    ]
    text = table(["part", "instances"], rows)
    if facts.row.get("selected"):
        text += f"\nOn average {100 * float(facts.row['selected']):.0f} % of the pseudo-labels were trained on.\n"
    named = "; ".join(f"{role}: {', '.join(map(plain, names))}" for role, names in sources(facts.config).items())
    text += f"\nSources: {named}." if named else "\nThe images were handed over in memory; there are no files to name."
    return text + f" The split was drawn with seed {facts.config.data.split_seed} where the sources brought none."


def _training(model: Model, facts: Facts) -> str:
    own, run = model.config, facts.config
    size, weights = own.model.input_size, sum(p.numel() for p in model.net.parameters())
    network = " ".join(filter(None, [own.model.name, own.model.backbone]))
    epoch = f"{own.train.steps_per_epoch} steps" if own.train.epoch == "steps" else "a pass over the selected data"
    lines = [
        f"Network: {plain(network)}, {weights / 1e6:.2f} M parameters, {size} x {size} pixels, loss {own.train.loss}, "
        f"heatmaps read by {own.label.decode}.",
        f"Optimisation: {own.train.epochs} epochs of {epoch}, batches of {own.train.batch}, {own.train.optimizer} at "
        f"{own.train.lr:g}.",
    ]
    if run is not None:
        rounds = f", rounds: {run.rounds.count}, {_search(run)}" if run.method == "placl" else ""
        begun = "ImageNet or given weights" if run.model.init == "pretrained" else "random weights"
        lines.append(f"Method: {run.method} (preset {run.preset}{rounds}), from {begun}, seed {run.seed}.")
    lines.append(
        f"Network kept: {plain(model.stage)}, sha256 of its weights `{model.sha256}`. Made with placl {VERSION}."
    )
    return "\n".join(f"- {line}" for line in lines)


def _limits(model: Model, facts: Facts) -> str:
    lines = [
        "Meant for images like those it was trained on. On others the scores do not hold: measure first.",
        f"It does not find objects. It wants a crop of one, from a box: a square {model.config.data.context:g} times "
        "the box's longest side, around its centre.",
        "It names a place for every keypoint, also for one that is hidden or not there.",
        "Confidence is the height of the heatmap's peak in 0 to 1. It orders answers; it is not a probability.",
    ]
    if facts.pseudo:
        lines.append(
            "A part of what it learned from was labelled by another network, whose habits it may have taken over."
        )
    return "\n".join(f"- {line}" for line in lines)


def _licence(licence: str) -> str:
    return f"{plain(licence)}\n\nThe terms of the training images and labels may bind the model as well."


def _use(model: Model, files: Sequence[str]) -> str:
    size = model.config.model.input_size
    snippets = {"model.onnx": ONNX_SNIPPET, "model.pt2": TORCH_SNIPPET}
    if "model.onnx" not in files:
        snippets["model.pt2"] = TORCH_SNIPPET.replace(
            "images as above", f"(B, 3, {size}, {size}) float32 RGB, 0 to 255"
        )
    blocks = [f"`{name}`:\n\n```python\n{snippets[name]}```" for name in files if name in snippets]
    return "\n\n".join(
        [
            "Normalisation and decoding are in the graph. `export.json` names the keypoints and says how to crop. "
            "Pixel centres lie at integers: the first pixel's is 0, 0.",
            *blocks,
        ]
    )

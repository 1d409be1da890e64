"""Why a run is not well, in one sentence each, with what to try: pseudo-labelling fails silently."""

from __future__ import annotations

import statistics
from typing import Any

FEW, NEARLY_ALL = 0.01, 0.99  # shares of the pseudo-labels
FLAT = 0.02  # between the tenth and the ninetieth percentile of confidences
ONE_PLACE = 0.02  # of the field of view: how far a keypoint's places lie apart over instances
STEADY = 0.05  # points between the rewards of a search
WORSE = 2.0  # points below the network that was trained on labels alone


def health(run: dict[str, Any]) -> list[str]:
    """Complaints about what :func:`placl.report.collecting.collect` has found."""
    complaints = []
    for stage in [*run["stages"], *run["searching"]]:
        name = stage["name"]
        complaints += _of_labels(name, stage["confidence"])
        complaints += _of_search(name, stage["search"])
    few, everything = _of_selection(run["stages"])
    # Thresholds that are too high in one round and too low in another are not mended by moving them all.
    lower, higher = ("", "") if few and everything else ("Lower search.initial, or s", "Raise search.initial, or s")
    complaints += [f"{text} {lower or 'S'}et select.scale=quantile." for text in few]
    complaints += [f"{text} {higher or 'S'}et select.scale=quantile." for text in everything]
    advice = "Label more." if few else "Raise the thresholds (search.initial) or label more."
    return complaints + [f"{text} {advice}" for text in _of_accuracy(run["stages"], bool(run.get("taught")))]


def _of_labels(name: str, summary: dict[str, Any]) -> list[str]:
    found = []
    quantiles = [q for q in summary.get("quantiles") or [] if isinstance(q, (int, float))]
    if len(quantiles) > 10:
        low, high = quantiles[len(quantiles) // 10], quantiles[-1 - len(quantiles) // 10]
        if high - low < FLAT:
            found.append(
                f"{name}: all pseudo-labels are about equally sure ({low:.2f} to {high:.2f}), so thresholds cannot "
                "tell them apart. Train the first network longer, or set select.scale=quantile."
            )
    spread = summary.get("spread")
    if isinstance(spread, (int, float)) and spread < ONE_PLACE:
        found.append(
            f"{name}: keypoints are predicted at nearly the same place in every image: the network has collapsed. "
            "Lower train.lr, label more images, or check that the labels fit the images (placl data preview)."
        )
    return found


def _of_search(name: str, rows: list[dict[str, Any]]) -> list[str]:
    rewards = [row["reward"] for row in rows if row.get("reward") is not None]
    if len(rewards) >= 4 and max(rewards) - min(rewards) < STEADY:
        return [
            f"{name}: rewards hardly vary ({min(rewards):.2f} to {max(rewards):.2f}), so the search learns nothing. "
            "Use longer proxies (proxy.steps_per_epoch), more validation images, or reward.metric=pck_auc."
        ]
    return []


def _of_selection(stages: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Of rounds that selected hardly anything, and of those that selected everything."""
    few, everything = [], []
    for stage in stages:
        shares = _shares(stage)
        if shares and (median := statistics.median(shares)) < FEW:
            few.append(
                f"{stage['name']}: hardly a pseudo-label was selected (median over epoch groups {100 * median:.1f} %): "
                "the training was on labels alone for half of its time or more."
            )
        elif shares and min(shares) > NEARLY_ALL:
            everything.append(f"{stage['name']}: all pseudo-labels were selected throughout, wrong ones too.")
    return few, everything


def _shares(stage: dict[str, Any]) -> list[float]:
    """Of the pseudo-labels, how many each epoch group selected."""
    return [share for share in stage.get("shares") or [] if isinstance(share, (int, float))]


def _of_accuracy(stages: list[dict[str, Any]], taught: bool) -> list[str]:
    """``taught``: networks that label are others than the last, whose like is the yardstick `few`."""
    scored = [stage for stage in stages if not stage["yardstick"] and stage["val"] is not None]
    if taught:
        few = [stage for stage in stages if stage["name"] == "few" and stage["val"] is not None]
        scored = [*few, *scored[-1:]] if few else scored[:-1]
    if len(scored) < 2 or scored[-1]["val"] > scored[0]["val"] - WORSE:
        return []
    first, last = scored[0], scored[-1]
    shares = _shares(last)
    if shares and max(shares) < FEW:  # none took part
        return []
    return [
        f"{last['name']} is worse than {first['name']}, which knew labels alone ({last['val']:.1f} against "
        f"{first['val']:.1f} on validation data): pseudo-labels do harm."
    ]

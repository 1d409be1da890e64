"""OKS and its AP: by hand, against COCOeval.computeOks, and against pycocotools reading files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from placl.data.skeleton import COCO_SIGMAS
from placl.metrics import oks, oks_map

SIGMAS = (0.05, 0.1, 0.025, 0.08)
Case = dict[str, Any]


def random_case(seed: int, n: int = 30, k: int = 4, spread: float = 6.0) -> Case:
    rng = np.random.default_rng(seed)
    truth = rng.uniform(0, 200, (n, k, 2))
    visibility = rng.integers(0, 3, (n, k))
    visibility[:, 0] = np.maximum(visibility[:, 0], 1)
    return {
        "predicted": truth + rng.normal(0, spread, (n, k, 2)),
        "scores": rng.uniform(0, 1, n),
        "truth": truth,
        "visibility": visibility,
        "area": rng.uniform(2000, 20000, n),
        "sigmas": SIGMAS,
        "image_ids": rng.integers(0, n // 3, n) + 100,
    }


def own_oks(case: Case) -> np.ndarray:
    return oks(case["predicted"], case["truth"], case["visibility"], case["area"], case["sigmas"])


def coco_from_files(case: Case, folder: Path) -> COCOeval:
    """The evaluation as COCO's own notebook does it: annotations and results from json files."""
    images = [{"id": int(i)} for i in np.unique(case["image_ids"])]
    annotations, results = [], []
    for i, image in enumerate(case["image_ids"].tolist()):
        visible, points = case["visibility"][i], case["truth"][i]
        low, high = points[visible > 0].min(axis=0), points[visible > 0].max(axis=0)
        common = {"image_id": image, "category_id": 1}
        annotations.append(
            common
            | {
                "id": i + 1,
                "area": float(case["area"][i]),
                "iscrowd": 0,
                "bbox": [*low.tolist(), *(high - low).tolist()],
            }
            | {"keypoints": np.column_stack([points, visible]).ravel().tolist()}
            | {"num_keypoints": int((visible > 0).sum())}
        )
        keypoints = np.column_stack([case["predicted"][i], np.ones(len(visible))]).ravel().tolist()
        results.append(common | {"keypoints": keypoints, "score": float(case["scores"][i])})
    dataset = {"images": images, "categories": [{"id": 1, "name": "thing"}], "annotations": annotations}
    (folder / "truth.json").write_text(json.dumps(dataset))
    (folder / "found.json").write_text(json.dumps(results))
    truth = COCO(str(folder / "truth.json"))
    evaluation = COCOeval(truth, truth.loadRes(str(folder / "found.json")), "keypoints")
    evaluation.params.kpt_oks_sigmas = np.array(case["sigmas"])
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return evaluation


# --- similarity ---


def test_oks_by_hand() -> None:
    truth = np.zeros((1, 3, 2))
    predicted = np.array([[[3.0, 4.0], [0.0, 0.0], [50.0, 50.0]]])
    # d^2 = 25 with sigma 0.05 and area 1000: 25 / (2 * 1000 * 0.01) = 1.25; the second is exact, the third unlabelled.
    found = oks(predicted, truth, np.array([[2, 1, 0]]), np.array([1000.0]), (0.05, 0.1, 0.1))
    assert found.tolist() == pytest.approx([(math.exp(-1.25) + 1) / 2])


@pytest.mark.parametrize("seed", [0, 1])
def test_oks_is_cocoevals(seed: int, tmp_path: Path) -> None:
    case = random_case(seed)
    case["image_ids"] = np.arange(30)  # one instance an image: COCOeval's matrices are 1 x 1
    evaluation = coco_from_files(case, tmp_path)
    expected = [evaluation.computeOks(i, 1)[0, 0] for i in range(30)]
    assert own_oks(case).tolist() == pytest.approx(expected, abs=1e-12)


def test_the_sigmas_of_coco_are_pycocotools() -> None:
    evaluation = COCOeval(iouType="keypoints")
    assert evaluation.params.kpt_oks_sigmas.tolist() == pytest.approx(COCO_SIGMAS)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), scale=st.sampled_from([0.25, 2.0, 8.0]))
def test_oks_is_in_zero_to_one_and_does_not_depend_on_scale(seed: int, scale: float) -> None:
    case = random_case(seed)
    found = own_oks(case)
    assert ((found >= 0) & (found <= 1)).all()
    for name, factor in (("predicted", scale), ("truth", scale), ("area", scale**2)):
        case[name] = factor * case[name]
    assert own_oks(case) == pytest.approx(found)


@pytest.mark.filterwarnings("error")
def test_nan_predictions_count_zero_and_unlabelled_instances_are_nan() -> None:
    truth = np.zeros((2, 2, 2))
    truth[1] = np.nan
    predicted = np.array([[[math.nan, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    found = oks(predicted, truth, np.array([[2, 2], [0, 0]]), np.array([100.0, math.nan]), (0.05, 0.05))
    assert found[0] == 0.5
    assert math.isnan(found[1])


# --- average precision ---


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("spread", [2.0, 6.0, 15.0])
def test_map_is_pycocotools_from_files(seed: int, spread: float, tmp_path: Path) -> None:
    case = random_case(seed, spread=spread)
    stats = 100 * coco_from_files(case, tmp_path).stats
    result = oks_map(**case)
    assert [result.ap, result.ap50, result.ap75, result.ar] == pytest.approx([stats[0], stats[1], stats[2], stats[5]])
    assert result.oks.tolist() == own_oks(case).tolist()


@pytest.mark.parametrize("share_images", [True, False])
def test_perfect_predictions_have_ap_100(share_images: bool) -> None:
    case = random_case(4, spread=0.0)
    if not share_images:
        case["image_ids"] = None
    result = oks_map(**case)
    assert [result.ap, result.ap50, result.ap75, result.ar] == pytest.approx([100.0] * 4)


def test_ap_by_hand() -> None:
    """Two instances, one perfect and one hopeless that is more certain: precision is 1/2 up to recall 1/2."""
    truth = np.zeros((2, 4, 2))
    predicted = np.stack([truth[0], truth[1] + 1000])
    visibility, area = np.full((2, 4), 2), np.full(2, 5000.0)
    result = oks_map(predicted, np.array([0.1, 0.9]), truth, visibility, area, SIGMAS)
    assert result.ap == pytest.approx(100 * 0.5 * 51 / 101)  # recalls 0, 0.01, ... 0.50 of the 101 points
    assert result.ar == pytest.approx(50.0)
    better_ranked = oks_map(predicted, np.array([0.9, 0.1]), truth, visibility, area, SIGMAS)
    assert better_ranked.ap == pytest.approx(100 * 51 / 101)


def test_swapped_predictions_of_one_image_still_match() -> None:
    case = random_case(5, n=6, spread=0.0)
    case["visibility"][:] = 2
    case["image_ids"] = ["a", "a", "b", "b", "c", "c"]
    case["predicted"] = case["predicted"][[1, 0, 3, 2, 5, 4]]
    assert oks_map(**case).ap == pytest.approx(100.0)
    assert oks_map(**(case | {"image_ids": None})).ap == pytest.approx(0.0)


def test_unlabelled_instances_are_ignored() -> None:
    case = random_case(6)
    expected = oks_map(**{name: array if name == "sigmas" else array[5:] for name, array in case.items()})
    case["visibility"][:5] = 0
    case["truth"][:5] = np.nan
    result = oks_map(**case)
    assert [result.ap, result.ar] == pytest.approx([expected.ap, expected.ar])
    assert np.isnan(result.oks[:5]).all()


def test_a_prediction_on_an_unlabelled_box_is_not_a_mistake() -> None:
    truth = np.zeros((3, 4, 2))
    truth[0] += 50.0
    predicted = np.stack([truth[0], truth[1] + 500, truth[2]])  # the second wanders onto the third, which has no labels
    visibility = np.array([[2] * 4, [2] * 4, [0] * 4])
    case: Case = {"predicted": predicted, "scores": np.array([0.1, 0.9, 0.5]), "truth": truth, "visibility": visibility}
    case |= {"area": np.full(3, 2000.0), "sigmas": SIGMAS, "image_ids": [1, 1, 1]}
    boxes = np.array([[30, 30, 70, 70], [0, 0, 10, 10], [480, 480, 520, 520]])
    assert oks_map(**case).ap == pytest.approx(100 * 0.5 * 51 / 101)
    assert oks_map(**case, boxes=boxes).ap == pytest.approx(100 * 51 / 101)


def test_predictions_and_scores_that_are_not_finite_are_wrong() -> None:
    case = random_case(7, spread=0.0)
    case["predicted"][:] = np.nan
    case["scores"][:10] = np.nan
    assert oks_map(**case).ap == 0.0


def test_nothing_labelled_is_nan() -> None:
    case = random_case(8)
    case["visibility"][:] = 0
    result = oks_map(**case)
    assert all(math.isnan(value) for value in (result.ap, result.ap50, result.ap75, result.ar))


def test_it_does_not_print(capsys: pytest.CaptureFixture[str]) -> None:
    oks_map(**random_case(9))
    assert capsys.readouterr().out == ""


def test_what_does_not_fit_is_refused() -> None:
    case = random_case(10)
    with pytest.raises(ValueError, match=r"visibility is \(30, 4\)"):
        oks_map(**(case | {"sigmas": (0.05,)}))
    with pytest.raises(ValueError, match="negative or not finite"):
        oks_map(**(case | {"area": -case["area"]}))

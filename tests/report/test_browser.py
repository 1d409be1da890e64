"""The report in a real browser: it draws, it answers, it fetches nothing, and names stay text."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hostile import HOSTILE
from placl.config import Select
from placl.data.skeleton import Skeleton
from placl.learn.select import Selection
from placl.overlay import dot_colours
from placl.report.collecting import collect
from placl.report.page import page

pytestmark = pytest.mark.browser
Open = Callable[..., Any]


def selected(page: Any) -> int:
    """Keypoints that the gallery says would be selected."""
    return int(page.text_content("#selection").split()[0])


def test_the_page_is_drawn_without_a_complaint(finished: Path, visit: Open) -> None:
    file = finished / "report.html"
    seen = visit(file.as_uri())
    assert seen.problems == []
    assert [address for address in seen.asked if not address.startswith("data:")] == [file.as_uri()]
    headings = seen.page.locator("h2").all_text_contents()
    assert headings == ["Rounds", "Search", "Confidence and truth", "Pseudo-labels"]
    assert seen.page.locator("figure").count() == 9
    assert seen.page.locator(".tile").count() == 24


def test_across_domains_scores_say_whose_labels_they_are_of(told: dict[str, Any], tmp_path: Path, visit: Open) -> None:
    shares = [{"name": "dogs.json", "shared": 14, "unused": []}, {"name": "cats.json", "shared": 14, "unused": ["ear"]}]
    across = told | {"domains": {"val": "source", "test": "target", "keypoints": shares}}
    page = opened(visit, tmp_path / "r.html", across)
    assert {"val (source)", "test (target)"} <= set(page.locator("th").all_text_contents())
    assert "Labels of the source validate, labels of the target test." in page.text_content("#page")
    assert page.locator("tr", has_text="cats.json").locator("td").all_text_contents() == ["cats.json", "14", "ear"]


def test_names_are_text(finished: Path, visit: Open) -> None:
    seen = visit((finished / "report.html").as_uri())
    assert seen.page.title() == "a <title><b> run · placl"
    assert any(HOSTILE in text for text in seen.page.locator(".tile span").all_text_contents())
    assert seen.page.locator("b:not(.figure b)").count() == 0


def test_the_slider_changes_what_is_selected(finished: Path, visit: Open) -> None:
    page = visit((finished / "report.html").as_uri()).page
    found = []
    for threshold in ("0", "0.5", "1"):
        page.fill("#threshold", threshold)
        hollow = page.locator(".tile circle.rejected").count()
        found.append(selected(page))
        assert hollow == 24 * 14 - found[-1]
        assert page.text_content("#level") == f"{float(threshold):.2f}"
    assert found[0] == 24 * 14
    assert found[0] > found[1] > found[2] == 0
    assert page.locator(".tile.out").count() == 24


def test_filters(finished: Path, visit: Open) -> None:
    page = visit((finished / "report.html").as_uri()).page
    page.select_option("#filter", "worst")
    sure = [float(text.split(" · ")[0]) for text in page.locator(".tile span").all_text_contents()]
    assert sure == sorted(sure)
    assert len(sure) == 24
    page.select_option("#filter", "rejected")
    page.fill("#threshold", "1")
    assert page.locator(".tile").count() == 24
    page.fill("#threshold", "0")
    assert page.locator(".tile").count() == 0
    page.select_option("#filter", "changed")
    page.select_option("#stage", "round_1")
    assert page.locator(".tile").count() == 24


def test_a_picture_opens_with_every_round_and_closes(finished: Path, visit: Open) -> None:
    page = visit((finished / "report.html").as_uri()).page
    page.locator(".tile").first.click()
    assert page.locator("dialog[open] .evolution svg").count() == 3
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_the_night(finished: Path, visit: Open, width: int, scheme: str) -> None:
    seen = visit((finished / "report.html").as_uri(), viewport={"width": width, "height": 800}, color_scheme=scheme)
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    ground = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(int(part) for part in ground.strip("rgb()").split(",")) > 384) == (scheme == "light")


def opened(visit: Open, file: Path, *runs: dict[str, Any], **options: Any) -> Any:
    file.write_text(page(runs), encoding="utf-8")
    seen = visit(file.as_uri(), **options)
    assert seen.problems == []
    return seen.page


def test_the_headline_credits_who_earned_it(told: dict[str, Any], tmp_path: Path, visit: Open) -> None:
    settings = {**told["settings"], "rounds": {"keep": "best"}}
    first = {**told, "best": "round_0", "settings": settings}
    half = {**told, "best": None, "finished": False, "stages": told["stages"][:1], "settings": settings}
    seen = opened(visit, tmp_path / "r.html", told, first, half)
    words, marked = [], []
    for tab in range(3):
        seen.locator(".tabs button").nth(tab).click()
        words.append(seen.text_content(".figure.best span"))
        marked.append(seen.locator("tr.best td:first-child").all_text_contents())
    assert words == [
        "PLACL, 16 labels and 24 images without (round 2, the last)",
        "16 labels alone (round 0, the best)",
        "16 labels alone (round 0, so far)",
    ]
    assert marked == [["round 2 *"], ["round 0 *"], []]


def test_rounds_are_counted_without_the_final_network(told: dict[str, Any], tmp_path: Path, visit: Open) -> None:
    first, second, last, full = told["stages"]
    other = {**told, "stages": [first, second, {**last, "name": "final"}, full], "best": "final"}
    seen = opened(visit, tmp_path / "r.html", told, other)
    assert seen.locator("section:first-of-type tbody td:last-child").all_text_contents() == ["2", "1"]


def test_cards_hold_their_words_and_tables_keep_off(told: dict[str, Any], tmp_path: Path, visit: Open) -> None:
    seen = opened(visit, tmp_path / "r.html", told, told, viewport={"width": 390, "height": 800})
    assert seen.evaluate("[...document.querySelectorAll('.figure')].every((box) => box.scrollWidth <= box.clientWidth)")
    for pair in (".wide + .charts", ".charts + .wide"):
        assert seen.evaluate(f"getComputedStyle(document.querySelector('{pair}')).marginTop") == "16px"


def test_without_pairs_each_keypoint_has_its_own_colour(told: dict[str, Any], tmp_path: Path, visit: Open) -> None:
    gallery = {**told["gallery"], "flip_pairs": []}
    seen = opened(visit, tmp_path / "r.html", {**told, "gallery": gallery})
    seen.fill("#threshold", "0")
    script = "[...document.querySelector('.tile').querySelectorAll('circle')].map((dot) => getComputedStyle(dot).fill)"
    expected = dot_colours(Skeleton(tuple(gallery["keypoints"])))
    found = [tuple(int(part) for part in fill.strip("rgb()").split(",")) for fill in seen.evaluate(script)]
    assert np.abs(np.array(found) - expected).max() <= 1


def test_several_runs_side_by_side(told: dict[str, Any], tmp_path: Path, visit: Open) -> None:
    other = {**told, "name": "other", "gallery": {}}
    (tmp_path / "both.html").write_text(page([told, other]), encoding="utf-8")
    seen = visit((tmp_path / "both.html").as_uri())
    assert seen.problems == []
    assert seen.page.text_content("h1") == "2 runs"
    assert seen.page.locator("h2").first.text_content() == "Compared"
    assert seen.page.locator(".tile").count() == 24
    seen.page.locator(".tabs button").nth(1).click()
    assert seen.page.locator(".tile").count() == 0


@pytest.mark.parametrize("left", [[], ["results.csv"], ["gallery"], ["best", "round_2"], ["round_1/search.csv"]])
def test_whatever_is_missing_the_page_is_drawn(run: Path, visit: Open, left: list[str]) -> None:
    for name in left:
        shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink()
    (run / "report.html").write_text(page([collect(run)]), encoding="utf-8")
    seen = visit((run / "report.html").as_uri())
    assert seen.problems == []
    assert seen.page.text_content("h1") == "run"


def test_nothing_selected_and_nothing_finished(tmp_path: Path, visit: Open, told: dict[str, Any]) -> None:
    empty = json.loads(json.dumps(told))
    for stage in empty["stages"]:
        stage["shares"] = [0.0, 0.0] if stage["thresholds"] else None
    begun = {**empty, "stages": [], "searching": [], "gallery": {}, "finished": False}
    (tmp_path / "r.html").write_text(page([empty, begun]), encoding="utf-8")
    seen = visit((tmp_path / "r.html").as_uri())
    seen.page.locator(".tabs button").nth(1).click()
    assert "No network is finished yet" in seen.page.text_content("#page")
    assert seen.problems == []


def test_ranks_are_those_of_the_selection(finished: Path, visit: Open) -> None:
    page = visit((finished / "report.html").as_uri()).page
    random = np.random.default_rng(0)
    scores = np.round(random.random(1001) ** 2, 2)  # with ties
    quantiles = np.quantile(scores, np.linspace(0, 1, 1001)).tolist()
    expected = Selection(scores[:, None], Select(level="keypoint", scale="quantile"))
    for value in (*scores[:30].tolist(), 0.0, 1.0, 0.005):
        found = page.evaluate("([quantiles, value]) => rank(quantiles, value)", [quantiles, value])
        truth = float(((scores < value).sum() + 0.5 * (scores == value).sum()) / len(scores))
        assert found == pytest.approx(truth, abs=2e-3)
        assert bool(expected.chosen(np.flatnonzero(scores == value)[:1], truth - 0.01).all())

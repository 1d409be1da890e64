"""The review page in a real browser: look, move, decide, undo; and what happens when things go wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hostile import AWKWARD
from placl.data.corrections import Correction, Corrections
from placl.ui.reviewing import FILE
from placl.ui.server import Site

pytestmark = pytest.mark.browser
Open = Callable[..., Any]
WAIT = 60_000  # milliseconds, for machines that do other things as well


def until(page: Any, condition: str) -> None:
    """As Playwright's wait_for_function, which the page's policy does not let in."""
    for _ in range(WAIT // 50):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"never came true: {condition}")


def saved(page: Any) -> None:
    until(page, "unsaved.size === 0 && !isSaving")


def news(page: Any, text: str) -> None:
    page.locator("#saved", has_text=text).wait_for(timeout=WAIT)


def latest(run: Path) -> dict[str, Correction]:
    return Corrections(run / FILE).latest


def shown(page: Any, n: int | None = None) -> str:
    """The id of an instance, or of the one that is shown."""
    found: str = page.evaluate("(n) => items[n ?? current].id", n)
    return found


def centre(page: Any, k: int) -> tuple[float, float]:
    """Of a keypoint on the screen; in one go, since the page may be drawn anew at any time."""
    script = """(k) => { const box = document.querySelector(`#picture circle[data-k="${k}"]`).getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2]; }"""
    x, y = page.evaluate(script, k)
    return x, y


def spread(page: Any) -> None:
    """Keypoints in a row, so that each can be grasped."""
    page.evaluate(
        "() => { item().keypoints = item().keypoints.map((_, k) => toImage(item().map, [40 + 40 * k, 320])); draw(); }"
    )


def drag(page: Any, k: int, x: float, y: float, release: bool = True) -> None:
    start = centre(page, k)
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(start[0] + x / 2, start[1] + y / 2)
    page.mouse.move(start[0] + x, start[1] + y)
    if release:
        page.mouse.up()


def test_it_is_drawn_from_here_alone(address: str, visit: Open) -> None:
    seen = visit(address)
    page = seen.page
    page.wait_for_load_state("networkidle")
    assert page.title() == "review of a <b> run · placl"
    assert page.text_content("h1") == "a <b> run"
    assert page.text_content("#count") == "0 accepted, 0 rejected, 6 to go"
    assert page.locator("#points li").count() == page.locator("#picture circle[data-k]").count() == 14
    assert page.locator("#queue button").count() == 6
    assert all(asked.startswith((address, "data:")) for asked in seen.asked)
    assert f"{address}picture/0.jpg" in seen.asked
    assert seen.problems == []


def test_every_name_stays_text(address: str, visit: Open) -> None:
    page = visit(address).page
    for n in range(6):
        id_ = shown(page, n)
        assert page.text_content("#which") == f"{n + 1} of 6 · new · {id_}"
        assert any(name in id_ for name in AWKWARD)
        page.keyboard.press("ArrowRight")
    assert page.title() == "review of a <b> run · placl"
    assert page.locator("main script, main b:not(#points b)").count() == 0


def test_paging(address: str, visit: Open) -> None:
    page = visit(address).page
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("current") == 0
    for key in ("ArrowRight",) * 9:
        page.keyboard.press(key)
    assert page.evaluate("current") == 5
    page.click("#previous")
    assert page.evaluate("current") == 4
    page.locator("#queue button").nth(1).click()
    assert page.text_content("#which").startswith("2 of 6")
    assert page.locator("#queue [aria-current]").text_content() == "2"


def test_a_dragged_keypoint_is_saved_and_read_back(address: str, reviewed: Path, visit: Open) -> None:
    page = visit(address, viewport={"width": 1280, "height": 900}).page
    spread(page)
    before = page.evaluate("item().keypoints")
    drag(page, 3, 30, -60)
    saved(page)
    found = latest(reviewed)[shown(page)]
    per_pixel = page.evaluate("unit() * item().map[0]")  # of the image, per pixel of the screen
    assert found.verdict == "open"
    assert found.keypoints[3] == pytest.approx((before[3][0] + 30 * per_pixel, before[3][1] - 60 * per_pixel), abs=0.05)
    others = [k for k in range(14) if k != 3]
    assert [found.keypoints[k] for k in others] == [pytest.approx(before[k], abs=0.01) for k in others]
    page.reload()
    assert page.evaluate("item().keypoints[3]") == list(found.keypoints[3])
    assert "not decided" in page.text_content("#which")


def test_a_keypoint_stays_in_the_picture(address: str, reviewed: Path, visit: Open) -> None:
    page = visit(address, viewport={"width": 1280, "height": 900}).page
    spread(page)
    drag(page, 3, -900, -900)
    saved(page)
    x, y = latest(reviewed)[shown(page)].keypoints[3]
    assert 0 <= x <= 63
    assert 0 <= y <= 63
    assert [x, y] == pytest.approx(page.evaluate("item().keypoints[3]"), abs=0.01)
    frame = page.locator("#picture").bounding_box()
    left, top = centre(page, 3)
    assert left >= frame["x"] - 1
    assert top >= frame["y"] - 1


def test_the_name_is_that_of_the_keypoint_that_keys_act_on(address: str, visit: Open) -> None:
    page = visit(address).page
    spread(page)
    names = page.evaluate("told.keypoints")
    page.mouse.click(*centre(page, 5))
    page.mouse.move(*(v + 1 for v in centre(page, 5)))
    assert page.text_content("#picture text") == names[5]
    page.keyboard.press("ArrowDown")
    assert page.text_content("#picture text") == names[6]
    page.keyboard.press("x")
    assert page.locator("#picture text").count() == 0


def test_dots_of_the_list_show_on_white(address: str, visit: Open) -> None:
    page = visit(address, color_scheme="light").page
    rim = page.evaluate("getComputedStyle(document.querySelector('#points i.middle')).borderTopColor")
    assert sum(int(part) for part in rim.strip("rgb()").split(",")) < 384


def test_a_click_moves_nothing(address: str, reviewed: Path, visit: Open) -> None:
    page = visit(address).page
    spread(page)
    page.mouse.click(*centre(page, 5))
    assert page.evaluate("chosen") == 5
    assert not (reviewed / FILE).exists()


def test_keys_decide_and_undo(address: str, reviewed: Path, visit: Open) -> None:
    page = visit(address).page
    ids = [shown(page, n) for n in range(6)]
    page.keyboard.press("a")
    page.keyboard.press("r")
    assert page.evaluate("current") == 2
    saved(page)
    assert {id_: one.verdict for id_, one in latest(reviewed).items()} == {ids[0]: "accepted", ids[1]: "rejected"}
    assert page.text_content("#count") == "1 accepted, 1 rejected, 4 to go"
    page.keyboard.press("u")
    assert page.evaluate("current") == 1  # one sees what is undone
    page.keyboard.press("Control+z")
    saved(page)
    assert {one.verdict for one in latest(reviewed).values()} == {"open"}
    assert page.text_content("#count") == "0 accepted, 0 rejected, 6 to go"
    assert page.locator("#undo").is_disabled()


def test_keys_move_and_hide_keypoints(address: str, reviewed: Path, visit: Open) -> None:
    page = visit(address).page
    before = page.evaluate("item().keypoints[1]")
    page.keyboard.press("ArrowDown")
    for _ in range(4):
        page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("x")
    page.keyboard.press("ArrowUp")  # the last one
    page.keyboard.press("v")
    page.keyboard.press("a")
    saved(page)
    found = latest(reviewed)[shown(page, 0)]
    assert found.verdict == "accepted"
    assert found.visibility == (0, *(2,) * 12, 1)
    assert found.keypoints[1][0] > before[0]
    assert found.keypoints[1][1] == pytest.approx(before[1], abs=0.01)
    for _ in range(4):  # accepted, occluded, hidden; the four steps are one
        page.keyboard.press("u")
    saved(page)
    undone = latest(reviewed)[shown(page, 0)]
    assert undone.visibility == (2,) * 14
    assert undone.keypoints[1] == pytest.approx(before, abs=0.01)


def test_without_keypoints_there_is_nothing_to_accept(address: str, reviewed: Path, visit: Open) -> None:
    page = visit(address).page
    for _ in range(14):
        page.keyboard.press("x")
        page.keyboard.press("ArrowDown")
    page.keyboard.press("a")
    news(page, "No keypoint is left: reject it instead.")
    page.keyboard.press("r")
    saved(page)
    assert latest(reviewed)[shown(page, 0)].verdict == "rejected"


def test_what_moves_after_it_was_accepted_stays_accepted(address: str, reviewed: Path, visit: Open) -> None:
    page = visit(address).page
    page.keyboard.press("a")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Shift+ArrowDown")
    saved(page)
    assert latest(reviewed)[shown(page, 0)].verdict == "accepted"


def test_a_reload_keeps_what_was_done(address: str, visit: Open) -> None:
    page = visit(address).page
    page.keyboard.press("a")
    page.keyboard.press("r")
    saved(page)
    page.reload()
    assert page.text_content("#count") == "1 accepted, 1 rejected, 4 to go"
    assert page.evaluate("current") == 2  # where one goes on


def test_of_two_reviewers_the_later_holds_and_both_are_told(address: str, reviewed: Path, visit: Open) -> None:
    first, second = visit(address).page, visit(address).page
    for page in (first, second):  # neither hears of the other yet
        page.route("**/verdicts.json", lambda route: route.fulfill(json=[]))
    first.keyboard.press("a")
    saved(first)
    second.keyboard.press("r")
    news(second, "Number 1 had been saved by another reviewer meanwhile: yours has replaced it.")
    assert latest(reviewed)[shown(first, 0)].verdict == "rejected"
    first.unroute("**/verdicts.json")
    news(first, "Another reviewer has changed number 1.")
    assert first.text_content("#count") == "0 accepted, 1 rejected, 5 to go"
    assert first.locator("#undo").is_disabled()  # it would undo the other's


@pytest.mark.parametrize("leave", ["close", "elsewhere"])
def test_leaving_in_the_middle_of_a_drag_loses_nothing(address: str, reviewed: Path, visit: Open, leave: str) -> None:
    page = visit(address, viewport={"width": 1280, "height": 900}).page
    first, second = shown(page, 0), shown(page, 1)
    page.keyboard.press("a")
    saved(page)
    spread(page)
    before = page.evaluate("item().keypoints[3]")
    drag(page, 3, 40, 40, release=False)
    page.close() if leave == "close" else page.goto("about:blank")
    again = visit(address).page
    assert latest(reviewed)[first].verdict == "accepted"
    if leave == "elsewhere":  # the page could say so: what was moved is kept, and not decided
        until(again, "items[1].revision > 0")
        assert latest(reviewed)[second].verdict == "open"
        assert latest(reviewed)[second].keypoints[3][0] > before[0]
    assert again.text_content("#count") == "1 accepted, 0 rejected, 5 to go"


def test_a_server_that_is_away_for_a_while(
    make_site: Callable[[], Site], serve: Callable[[Site], str], reviewed: Path, visit: Open
) -> None:
    page = visit(serve(make_site())).page
    page.context.set_offline(True)
    page.keyboard.press("a")
    news(page, "Not saved: the server does not answer. Trying again; leave this page open.")
    assert not (reviewed / FILE).exists()
    page.context.set_offline(False)
    saved(page)
    news(page, "all saved")
    assert latest(reviewed)[shown(page, 0)].verdict == "accepted"


def test_a_disk_that_is_full_for_a_while(
    address: str, reviewed: Path, visit: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = visit(address).page

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("placl.data.corrections.os.fsync", full)
        page.keyboard.press("a")
        news(page, "no space left on the disk")
    saved(page)
    assert latest(reviewed)[shown(page, 0)].verdict == "accepted"


def test_a_picture_that_cannot_be_read_is_said(
    make_site: Callable[[], Site], serve: Callable[[Site], str], visit: Open
) -> None:
    site = make_site()
    del site.get["picture/0.jpg"]
    page = visit(serve(site)).page
    page.locator("#broken", has_text="This picture cannot be read: ").wait_for(timeout=WAIT)
    page.keyboard.press("ArrowRight")
    assert page.locator("#broken").is_hidden()


def test_zoom(address: str, visit: Open) -> None:
    page = visit(address, viewport={"width": 1280, "height": 900}).page
    spread(page)
    x, y = centre(page, 3)
    page.mouse.move(x, y)
    page.mouse.wheel(0, -100)
    until(page, "zoom.side === 0.8 * SIDE")
    assert centre(page, 3) == pytest.approx((x, y), abs=1.5)  # what is under the pointer stays there
    for _ in range(3):
        page.keyboard.press("-")
    assert page.evaluate("zoom") == {"x": 0, "y": 0, "side": 640}


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_the_night(address: str, visit: Open, width: int, scheme: str) -> None:
    page = visit(address, viewport={"width": width, "height": 800}, color_scheme=scheme).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    box = page.locator("#picture").bounding_box()
    assert box["width"] == pytest.approx(box["height"], abs=1)
    assert box["width"] > 320
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(int(part) for part in ground.strip("rgb()").split(",")) > 384) == (scheme == "light")


def test_a_finger_moves_a_keypoint(address: str, reviewed: Path, visit: Open) -> None:
    page = visit(address, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True).page
    spread(page)
    x, y = centre(page, 4)
    touch = page.context.new_cdp_session(page)
    for kind, dx in (("touchStart", 0), ("touchMove", 10), ("touchMove", 40)):
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x + dx, "y": y}]})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    saved(page)
    assert centre(page, 4) == pytest.approx((x + 40, y), abs=2)
    assert shown(page) in latest(reviewed)

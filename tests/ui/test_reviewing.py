"""The review without a browser: pictures, saves, refusals, and a training that uses what was saved."""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import cv2
import numpy as np
import pytest

from hostile import HOSTILE
from placl.api import corrected, draw_roles, train
from placl.config import Config
from placl.data.corrections import Corrections
from placl.data.instances import Instances
from placl.data.load import load_dataset
from placl.data.splits import make_problem, take_ids
from placl.errors import InputError
from placl.run.folder import read_split
from placl.suggesting import Opinions, ranked
from placl.ui import reviewing
from placl.ui.reviewing import FILE, SIDE, items_of, picture, review_site
from placl.ui.server import Site

Serve = Callable[[Site], str]


def fetch(address: str, content: Any = None) -> Any:
    """The JSON that is answered, also by refusals."""
    parts = urlsplit(address)
    headers = {"Origin": f"{parts.scheme}://{parts.netloc}"} if content is not None else {}
    data = json.dumps(content).encode() if content is not None else None
    try:
        with urllib.request.urlopen(urllib.request.Request(address, data, headers), timeout=20) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refusal:
        return json.load(refusal)


def correction(id_: str, reviewer: str = "me", seen: int = 0, **change: Any) -> dict[str, Any]:
    keypoints = [[10 + k, 20.5 - k] for k in range(14)]
    content = {"id": id_, "verdict": "accepted", "keypoints": keypoints, "visibility": [2] * 13 + [1]}
    return content | {"reviewer": reviewer, "seen": seen} | change


@pytest.fixture
def ids(opinions: Opinions) -> list[str]:
    return [one.id for one in ranked(opinions, 6)]


def test_pictures_show_what_the_network_saw(opinions: Opinions, instances: Instances) -> None:
    item = items_of(opinions, instances, opinions.pool.ids[:1])[0]
    shown = cv2.imdecode(np.frombuffer(picture(item).content, np.uint8), cv2.IMREAD_COLOR)[:, :, ::-1]
    assert shown.shape == (SIDE, SIDE, 3)
    margin = (opinions.pool.crop_size - int(opinions.pool.view)) // 2
    seen = opinions.pool.images(np.array([0]))[0, margin:-margin, margin:-margin]
    small = cv2.resize(np.ascontiguousarray(shown), seen.shape[:2], interpolation=cv2.INTER_AREA)
    assert np.abs(small.astype(int) - seen).mean() < 8


def test_keypoints_are_where_the_network_said(opinions: Opinions, instances: Instances) -> None:
    pool = opinions.pool
    item = items_of(opinions, instances, pool.ids[3:4])[0]
    scale, *shift = item.to_image
    in_picture = (item.keypoints - shift) / scale
    in_view = opinions.each[-1].keypoints[3] - (pool.crop_size - pool.view) / 2
    np.testing.assert_allclose(in_picture + 0.5, (in_view + 0.5) * SIDE / pool.view, atol=1e-3)


def test_a_save_is_in_the_file_before_it_is_answered(address: str, reviewed: Path, ids: list[str]) -> None:
    kept = fetch(address + "save", correction(ids[0]))
    assert (kept["revision"], kept["replaced"]) == (1, False)
    found = Corrections(reviewed / FILE).latest[ids[0]]
    assert found.keypoints[1] == (11.0, 19.5)
    assert found.visibility[-1] == 1
    assert Path(found.image).is_file()
    assert found.box is not None
    assert fetch(address + "verdicts.json") == [{key: kept[key] for key in kept if key != "replaced"}]


def test_the_later_of_two_reviewers_holds_and_is_told(address: str, reviewed: Path, ids: list[str]) -> None:
    fetch(address + "save", correction(ids[0], "first"))
    later = fetch(address + "save", correction(ids[0], "second", verdict="rejected"))
    assert (later["revision"], later["replaced"]) == (2, True)
    assert Corrections(reviewed / FILE).latest[ids[0]].verdict == "rejected"
    known = fetch(address + "save", correction(ids[0], "first", seen=2))
    assert (known["revision"], known["replaced"]) == (3, False)  # it had seen what it replaces


def test_two_servers_of_one_run_share_a_file(make_site: Callable[[], Site], serve: Serve, ids: list[str]) -> None:
    first, second = serve(make_site()), serve(make_site())
    fetch(first + "save", correction(ids[0], "first"))
    assert fetch(second + "save", correction(ids[0], "second"))["replaced"]
    assert fetch(first + "verdicts.json")[0]["reviewer"] == "second"


def test_what_lies_outside_of_the_image_is_brought_to_its_edge(address: str, reviewed: Path, ids: list[str]) -> None:
    kept = fetch(address + "save", correction(ids[0], keypoints=[[-42.1, -12.5], [70, 12]] + [[5, 6]] * 12))
    assert kept["keypoints"][:3] == [[0, 0], [63, 12], [5, 6]]
    assert Corrections(reviewed / FILE).latest[ids[0]].keypoints[:2] == ((0, 0), (63, 12))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "other"}, 'cannot be saved: "other" is not under review.'),
        ({"keypoints": [[1, 2]]}, "has 1 keypoints, expected 14"),
        ({"visibility": [2]}, "has 14 keypoints, expected 14"),
        ({"keypoints": [[1e9, 2]] * 14}, "cannot be saved: keypoints.0.0: "),
        ({"visibility": [0] * 14}, "an instance without a keypoint is no label: reject it."),
        ({"verdict": "perhaps"}, "cannot be saved: verdict: "),
        ({"reviewer": "x" * 41}, "cannot be saved: reviewer: "),
        ({"more": 1}, "cannot be saved: more: "),
    ],
)
def test_nonsense_is_refused(
    address: str, reviewed: Path, ids: list[str], change: dict[str, Any], message: str
) -> None:
    assert message in fetch(address + "save", correction(ids[0]) | change)["error"]
    assert not (reviewed / FILE).exists()


def test_what_is_no_object_is_refused(address: str) -> None:
    assert fetch(address + "save", [1])["error"].startswith("cannot be saved: ")


def test_the_page_has_no_markup_from_outside(make_site: Callable[[], Site]) -> None:
    text = str(make_site().get[""]().content)
    assert HOSTILE not in text
    assert "<title>review of a &lt;b&gt; run · placl</title>" in text
    assert "default-src &#x27;none&#x27;; img-src &#x27;self&#x27; data:; connect-src &#x27;self&#x27;" in text


def test_a_picture_that_is_gone_is_said(opinions: Opinions, instances: Instances, tmp_path: Path) -> None:
    item = items_of(opinions, instances, opinions.pool.ids[:1])[0]
    with pytest.raises(InputError, match=r"gone\.jpg: cannot be read"):
        picture(replace(item, image=tmp_path / "gone.jpg"))


def test_what_was_reviewed_comes_again_beside_what_is_new(
    trained: Path, reviewed: Path, opinions: Opinions, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reviewing, "opinions_of", lambda *_, **__: opinions)
    shown: list[list[str]] = []
    monkeypatch.setattr(reviewing, "site_of", lambda run, items, _: shown.append([item.id for item in items]))
    review_site(reviewed, 2)
    corrections = Corrections(reviewed / FILE, opinions.pool.skeleton)
    corrections.save(reviewing.Correction(ids[1], "open", ((1.0, 1.0),) * 14, (2,) * 14, "x", None))
    review_site(reviewed, 2)
    assert shown[0] == [one.id for one in ranked(opinions, 2)]
    assert shown[1] == [ids[1], *(one.id for one in ranked(opinions, 2, besides=[ids[1]]))]


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda run: shutil.rmtree(run), "is not a run folder"),
        (lambda run: (run / "config.yaml").write_text("nonsense: 1\n"), "nonsense"),
        (lambda run: [shutil.rmtree(stage) for stage in run.glob("round_*")], "has no finished network yet"),
        (lambda run: (run / "round_2/model.safetensors").write_bytes(b"half"), "not a readable weights file"),
        (lambda run: shutil.copy(run / "../other.safetensors", run / "round_2/model.safetensors"), "another version"),
        (lambda run: (run / "split.json").write_text('{"labelled": ['), "split.json: is damaged"),
        (lambda run: (run / FILE).write_text("{}\n"), "is no file of corrections"),
    ],
)
def test_half_a_run_ends_in_one_line(reviewed: Path, harm: Callable[[Path], Any], message: str) -> None:
    from safetensors.numpy import save_file

    save_file({"other": np.zeros(1, np.float32)}, reviewed / "../other.safetensors")
    harm(reviewed)
    with pytest.raises(InputError, match=message):
        review_site(reviewed, 2)


def test_a_run_that_is_still_going_on_is_reviewed(reviewed: Path) -> None:
    for later in ("round_1", "round_2", "best"):
        shutil.rmtree(reviewed / later)
    (reviewed / "results.csv").unlink()
    assert "picture/3.jpg" in review_site(reviewed, 4).get


def test_a_training_uses_exactly_what_was_accepted(
    address: str, reviewed: Path, review_config: Config, ids: list[str], tmp_path: Path
) -> None:
    fetch(address + "save", correction(ids[0]))
    fetch(address + "save", correction(ids[1], visibility=[0] + [2] * 13))
    fetch(address + "save", correction(ids[2], verdict="rejected"))
    fetch(address + "save", correction(ids[3], verdict="open"))
    data = review_config.data.model_copy(update={"corrections": (reviewed / FILE,)})
    config = review_config.model_copy(update={"data": data})
    result = train(config, tmp_path / "again")
    before, after = read_split(reviewed), read_split(tmp_path / "again")
    assert before is not None
    assert after is not None
    assert set(after.labelled) == {*before.labelled, ids[0], ids[1]}
    assert {*after.half_1, *after.half_2} == {*before.half_1, *before.half_2} - set(ids[:3])
    assert set(after.half_1) <= set(before.half_1)
    assert (after.val, after.test) == (before.val, before.test)
    assert result.rows[0]["labels"] == len(before.labelled) + 2

    dataset = load_dataset(config.data, config.view)
    assert draw_roles(dataset, config) == after
    known = make_problem(corrected(dataset, after), after).labelled
    found = take_ids(known, (ids[0], ids[1]))
    places = np.array(correction(ids[0])["keypoints"])
    np.testing.assert_allclose(found.in_image(found.keypoints)[0], places, atol=1e-3)
    np.testing.assert_allclose(found.in_image(found.keypoints)[1, 1:], places[1:], atol=1e-3)
    assert found.visibility.tolist() == [[2] * 13 + [1], [0] + [2] * 13]

    # Said after the run was begun: carrying on would leave it out without a word.
    fetch(address + "save", correction(ids[4]))
    with pytest.raises(InputError, match="which they did not when the run was begun"):
        train(config, tmp_path / "again")

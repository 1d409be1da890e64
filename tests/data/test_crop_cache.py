"""The crop cache: what becomes of instances, and that a cache is whole or absent."""

import errno
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from pictures import picture, save, truncated
from placl.data import crew, crop_cache, images
from placl.data.crop_cache import build_pool
from placl.data.crops import cut, cut_out
from placl.data.formats.coco import read_coco
from placl.data.images import decode
from placl.data.instances import Instances, join, plain_instances
from placl.data.pool import Pool
from placl.data.skeleton import Skeleton
from placl.errors import InputError, MachineError

BIRD = Skeleton(("beak", "tail"))


def instances_of(paths: list[Path], boxes: np.ndarray, index: list[int] | None = None, visible: int = 2) -> Instances:
    n = len(boxes)
    return Instances(
        skeleton=BIRD,
        images=tuple(paths),
        image_index=np.arange(n) if index is None else np.array(index),
        boxes=np.asarray(boxes, np.float64),
        keypoints=np.tile(np.array([[10, 20], [30, 5]], np.float32), (n, 1, 1)),
        visibility=np.full((n, 2), visible, np.uint8),
        area=np.full(n, 99, np.float32),
        ids=tuple(f"i{i}" for i in range(n)),
        sources=("ann.json",) * len(paths),
    )


def plain(*paths: Path) -> Instances:
    n = len(paths)
    ids = tuple(path.name for path in paths)
    whole = plain_instances(paths, ids, np.arange(n), np.full((n, 4), np.nan), np.full(n, np.nan, np.float32))
    return whole.with_skeleton(BIRD)


def build(instances: Instances, cache: Path, **options: Any) -> Pool:
    return build_pool(instances, **{"view": 32, "cache": cache, **options})[0]


# --- the pool


def test_pool_of_instances(tmp_path: Path) -> None:
    image = save(tmp_path / "a.png", picture(128, 128))
    instances = instances_of([image], np.array([[12.8, 12.8, 102.4, 102.4]]))
    pool, skipped = build_pool(instances, view=64, cache=tmp_path / "cache")
    assert skipped == []
    assert pool.crops.shape == (1, 80, 80, 3)
    assert isinstance(pool.crops, np.memmap)
    assert not pool.crops.flags.writeable
    assert pool.view == 64
    assert pool.rows.tolist() == [0]
    assert pool.ids == ("i0",)
    assert pool.length.tolist() == pytest.approx([51.2])  # 102.4 / 2, and 64 / 1.25
    assert pool.area.tolist() == [99]
    # x' = (x + 0.5) / 2 - 0.5, and 8 pixels of margin
    np.testing.assert_allclose(pool.keypoints[0], [[12.75, 17.75], [22.75, 10.25]], atol=1e-5)
    np.testing.assert_allclose(pool.in_image(pool.keypoints), instances.keypoints, atol=1e-4)
    expected = cv2.resize(picture(128, 128), (64, 64), interpolation=cv2.INTER_AREA)
    assert np.abs(pool.images(np.array([0]))[0, 8:-8, 8:-8].astype(int) - expected).max() <= 1


def test_whole_images_take_their_size_from_the_file(tmp_path: Path) -> None:
    pool = build(plain(save(tmp_path / "a.png"), save(tmp_path / "b.png", picture(100, 200))), tmp_path / "cache")
    assert pool.area.tolist() == [64 * 48, 100 * 200]
    np.testing.assert_allclose(pool.to_image[:, 0], [1.25 * 64 / 32, 1.25 * 200 / 32])
    assert not pool.keypoints.any()
    assert not pool.labelled.any()


def test_unlabelled_keypoints_are_zero_and_those_outside_the_crop_stay(tmp_path: Path) -> None:
    instances = instances_of([save(tmp_path / "a.png")], np.array([[0.0, 0, 4, 4]]))
    instances.visibility[0, 0] = 0
    pool = build(instances, tmp_path / "cache")
    assert pool.keypoints[0, 0].tolist() == [0, 0]
    assert pool.keypoints[0, 1, 0] > pool.crop_size


def test_an_image_is_decoded_once_and_never_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [save(tmp_path / "a.png"), save(tmp_path / "b.png", picture(seed=1))]
    boxes = np.array([[0, 0, 20, 20], [5, 5, 30, 30], [20, 10, 16, 24.0]])
    decoded: list[str] = []
    seen: list[tuple[int, int]] = []

    def counting(path: str, maps: np.ndarray, **options: Any) -> Any:
        decoded.append(Path(path).name)
        return cut_out(path, maps, **options)

    monkeypatch.setattr(crop_cache, "cut_out", counting)
    instances = instances_of(paths, boxes, index=[1, 0, 1])
    first = build(instances, tmp_path / "cache", progress=lambda done, total: seen.append((done, total)))
    assert decoded == ["a.png", "b.png"]
    assert seen == [(2, 2)]
    instances.visibility[:] = 0  # labels are no part of the key
    again = build(instances, tmp_path / "cache")
    assert decoded == ["a.png", "b.png"]
    np.testing.assert_array_equal(first.crops, again.crops)
    for i, path in enumerate(("b.png", "a.png", "b.png")):
        np.testing.assert_array_equal(first.crops[i], cut(decode(tmp_path / path), first.to_image[i], 40))


def test_every_ingredient_of_a_pixel_changes_the_key(tmp_path: Path) -> None:
    path, cache = save(tmp_path / "a.png"), tmp_path / "cache"
    other = save(tmp_path / "b.png")
    box = np.array([[0.0, 0, 20, 20]])
    build(instances_of([path], box), cache)
    build(instances_of([path], box), cache, view=48)
    build(instances_of([path], box), cache, context=1.5)
    build(instances_of([path], box), cache, margin=1.5)
    build(instances_of([path], box + 1), cache)
    build(instances_of([other], box), cache)
    build(instances_of([path, other], box, index=[0]), cache)
    build(instances_of([path, other], box, index=[1]), cache)
    os.utime(path, ns=(1, 1))
    build(instances_of([path], box), cache)
    assert len(list(cache.iterdir())) == 9


def test_a_cache_has_the_name_that_it_is_looked_for_under(tmp_path: Path) -> None:
    paths = [save(tmp_path / name) for name in ("a.png", "b.png", "c.png")]
    instances = instances_of(paths, np.array([[0.0, 0, 20, 20], [5, 5, 20, 20]]), index=[2, 0])  # and none of b.png
    build(instances, tmp_path / "cache")
    (folder,) = (tmp_path / "cache").iterdir()
    (tmp_path / "cache" / "other").mkdir()
    (tmp_path / "cache" / "other" / "index.json").touch()
    built = folder.stat().st_mtime_ns
    build(instances, tmp_path / "cache")
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {folder.name, "other"}
    assert folder.stat().st_mtime_ns == built


@pytest.mark.parametrize("caches", [0, 1])
def test_a_file_that_changes_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caches: int
) -> None:
    path, cache = save(tmp_path / "a.png"), tmp_path / "cache"
    instances = instances_of([path], np.array([[0.0, 0, 20, 20]]))
    for view in range(40, 40 + caches):  # one that is there already makes the look-up come before the reading
        build(instances, cache, view=view)

    def slow(path: str, *arguments: Any, **options: Any) -> Any:
        found = cut_out(path, *arguments, **options)
        save(Path(path), picture(seed=3))  # somebody writes it just now
        os.utime(path, ns=(1, 1))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(crop_cache, "cut_out", slow)
        old = build(instances, cache)
    new = build(instances, cache)
    assert not np.array_equal(old.crops, new.crops)
    np.testing.assert_array_equal(new.crops[0], cut(decode(path), new.to_image[0], 40))


def test_workers_make_the_same_crops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crop_cache, "IMAGES_PER_TASK", 2)
    monkeypatch.setattr(crew, "WORTH_HELP", 0.0)
    paths = [save(tmp_path / f"{i}.png", picture(seed=i)) for i in range(5)]
    (tmp_path / "bad.jpg").write_bytes(b"")
    source = join([plain(*paths), plain(tmp_path / "bad.jpg")])
    threads = cv2.getNumThreads()
    alone, _ = build_pool(source, view=32, cache=tmp_path / "one")
    seen: list[int] = []
    both, skipped = build_pool(
        source, view=32, cache=tmp_path / "two", workers=2, progress=lambda done, _: seen.append(done)
    )
    np.testing.assert_array_equal(alone.crops, both.crops)
    assert cv2.getNumThreads() == threads
    assert skipped == [f"{tmp_path / 'bad.jpg'}: the file is empty"]
    assert seen == [2, 4, 6]


# --- unreadable images


def test_unreadable_image_of_a_labelled_instance(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(truncated("JPEG"))
    with pytest.raises(InputError) as caught:
        build(instances_of([path], np.array([[0.0, 0, 9, 9]])), tmp_path / "cache")
    message = str(caught.value)
    assert message.startswith(f"{path}: cannot be read as an image (image file is truncated")
    assert message.endswith("Remove it from ann.json or replace the file.")
    assert list((tmp_path / "cache").iterdir()) == []


def test_unreadable_images_of_unlabelled_instances_are_skipped(tmp_path: Path) -> None:
    good, bad = save(tmp_path / "good.png"), tmp_path / "bad.png"
    bad.write_bytes(b"no image")
    boxes = np.array([[0, 0, 9, 9], [0, 0, 20, 20.0], [5, 5, 9, 9], [1, 1, 8, 8]])
    instances = instances_of([bad, good, tmp_path / "gone.png"], boxes, index=[0, 1, 0, 2], visible=0)
    for _ in range(2):  # built, and from the cache
        pool, skipped = build_pool(instances, view=32, cache=tmp_path / "cache")
        assert skipped == [f"{bad}: not a known image format", f"{tmp_path / 'gone.png'}: No such file or directory"]
        assert pool.ids == ("i1",)
        assert pool.rows.tolist() == [1]
        np.testing.assert_array_equal(pool.images(np.array([0]))[0], cut(decode(good), pool.to_image[0], 40))


def test_a_cache_built_without_labels_still_refuses_them(tmp_path: Path) -> None:
    good, bad = save(tmp_path / "good.png"), tmp_path / "bad.png"
    bad.write_bytes(b"no image")
    instances = instances_of([bad, good], np.array([[0, 0, 9, 9], [0, 0, 20, 20.0]]), visible=0)
    build(instances, tmp_path / "cache")
    instances.visibility[0] = 2
    with pytest.raises(InputError, match=r"bad.png: cannot be read as an image \(not a known image format\)"):
        build(instances, tmp_path / "cache")


def test_a_disk_that_fails_leaves_no_cache_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, other = save(tmp_path / "good.png"), save(tmp_path / "other.png")
    content = images._content

    def fails(path: str) -> bytes:
        if Path(path) == other:
            raise OSError(errno.EIO, "Input/output error")
        return content(path)

    monkeypatch.setattr(images, "_content", fails)
    with pytest.raises(MachineError, match=r"other\.png: cannot be read \(Input/output error\)"):
        build(plain(good, other), tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
    monkeypatch.setattr(images, "_content", content)
    assert len(build(plain(good, other), tmp_path / "cache")) == 2


def test_an_image_that_is_opened_to_us_is_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, closed = save(tmp_path / "good.png"), save(tmp_path / "closed.png")
    content, access = images._content, os.access

    def refused(path: str) -> bytes:
        if Path(path) == closed:
            raise PermissionError(errno.EACCES, "Permission denied")
        return content(path)

    monkeypatch.setattr(images, "_content", refused)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != closed and access(path, mode))
    assert build_pool(plain(good, closed), view=32, cache=tmp_path / "c")[1] == [f"{closed}: Permission denied"]
    monkeypatch.setattr(images, "_content", content)  # chmod changes neither size nor time
    monkeypatch.setattr(os, "access", access)
    assert build_pool(plain(good, closed), view=32, cache=tmp_path / "c")[1] == []


@pytest.mark.parametrize("box", [[0, 0, 1e300, 1e300], [0, 0, 1e-300, 1e-300], [np.inf, 0, 4, 4]])
def test_a_box_that_no_image_has_is_named(tmp_path: Path, box: list[float]) -> None:
    instances = instances_of([save(tmp_path / "a.png")], np.array([[0, 0, 9, 9], box]), index=[0, 0])
    with pytest.raises(InputError, match=r"i1: its box .* is no part of an image\. Fix it in ann\.json\.") as caught:
        build(instances, tmp_path / "cache")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "cache").exists()


def test_nothing_readable(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none of the 2 images can be read, first .*a.png: No such file"):
        build(plain(tmp_path / "a.png", tmp_path / "b.png"), tmp_path / "cache")


def test_nothing_names_the_keypoints(tmp_path: Path) -> None:
    nameless = plain_instances((tmp_path / "a.png",), ("a",), np.zeros(1, int), np.full((1, 4), np.nan), np.ones(1))
    with pytest.raises(InputError, match="nothing names the keypoints"):
        build(nameless, tmp_path / "cache")
    with pytest.raises(InputError, match="no instances"):
        build(plain(), tmp_path / "cache")


# --- a cache is whole or absent


@pytest.mark.parametrize("place", ["posix_fallocate", "fsync"])
def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, place, full)
    with pytest.raises(MachineError, match=r"no room for 0\.0 GB of crops") as caught:
        build(plain(save(tmp_path / "a.png")), tmp_path / "cache")
    assert caught.value.exit_code == 1
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "cache").iterdir()) == []


def test_full_disk_without_fallocate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "posix_fallocate")
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10})())
    with pytest.raises(MachineError, match="no room"):
        build(plain(save(tmp_path / "a.png")), tmp_path / "cache")


def test_cache_must_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "cache").touch()
    with pytest.raises(InputError, match=r"cache: cannot keep crops there \(.*\). Use another cache."):
        build(plain(save(tmp_path / "a.png")), tmp_path / "cache")


def test_interruption_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    source = plain(save(tmp_path / "a.png"))
    with pytest.raises(KeyboardInterrupt):
        build(source, tmp_path / "cache", progress=interrupt)
    assert list((tmp_path / "cache").iterdir()) == []
    assert len(build(source, tmp_path / "cache")) == 1


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("index.json", b"{"),
        ("index.json", b"[]"),
        ("index.json", b'{"sizes": [], "unreadable": {}}'),
        ("index.json", None),
        ("crops.npy", b"\x93NUMPY"),
        ("crops.npy", b""),
    ],
)
def test_a_damaged_cache_is_built_again(tmp_path: Path, file: str, content: bytes | None) -> None:
    source = plain(save(tmp_path / "a.png"))
    expected = np.array(build(source, tmp_path / "cache").crops)
    (folder,) = (tmp_path / "cache").iterdir()
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_bytes(content)
    np.testing.assert_array_equal(build(source, tmp_path / "cache").crops, expected)
    assert list((tmp_path / "cache").iterdir()) == [folder]


def test_the_faster_of_two_builds_wins(tmp_path: Path) -> None:
    source, cache = plain(save(tmp_path / "a.png")), tmp_path / "cache"

    def other_process(done: int, total: int) -> None:
        build(source, cache)
        (folder,) = [f for f in cache.iterdir() if f.suffix != ".tmp"]
        (folder / "mark").touch()

    build(source, cache, progress=other_process)
    (folder,) = cache.iterdir()
    assert (folder / "mark").exists()


def test_leftovers_of_dead_processes_are_removed(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    node = platform.node()
    leftover, alive, elsewhere, foreign = (
        f"key.{node}.{int(dead.stdout)}.abc.tmp",
        f"key.{node}.{os.getppid()}.abc.tmp",
        f"key.{node}x.{int(dead.stdout)}.abc.tmp",
        "mine.tmp",
    )
    for name in (leftover, alive, elsewhere, foreign):
        (cache / name).mkdir(parents=True)
        (cache / name / "crops.npy").touch()
    build(plain(save(tmp_path / "a.png")), cache)
    names = {path.name for path in cache.iterdir()}
    assert leftover not in names
    assert {alive, elsewhere, foreign} < names


def test_index_is_plain_json(tmp_path: Path) -> None:
    build(plain(save(tmp_path / "a.png")), tmp_path / "cache")
    (folder,) = (tmp_path / "cache").iterdir()
    assert json.loads((folder / "index.json").read_text()) == {"sizes": [[64, 48]], "unreadable": {}}


# --- real pictures


@pytest.mark.realdata
def test_real_people_keep_their_faces_under_their_keypoints(shared: Path, tmp_path: Path) -> None:
    instances = read_coco(shared / "formats" / "coco" / "test_coco.json")
    pool = build(instances, tmp_path / "cache", view=128)
    seen = pool.visibility > 0
    np.testing.assert_allclose(pool.in_image(pool.keypoints)[seen], instances.keypoints[seen], atol=1e-3)
    image = decode(instances.images[0])
    for i in np.flatnonzero(pool.labelled & (instances.image_index == 0)):
        for point, (x, y) in zip(pool.keypoints[i], instances.keypoints[i], strict=True):
            u, v = point.round().astype(int)
            if not (0 <= u < pool.crop_size and 0 <= v < pool.crop_size):
                continue
            patch = image[max(0, int(y) - 6) : int(y) + 7, max(0, int(x) - 6) : int(x) + 7].reshape(-1, 3)
            low, high = patch.min(axis=0).astype(int) - 3, patch.max(axis=0).astype(int) + 3
            colour = pool.crops[i, v, u]
            assert ((low <= colour) & (colour <= high)).all()

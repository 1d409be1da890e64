"""Files that placl did not write: whatever is in them, a reader answers or refuses in one line.

A few hundred wrong inputs for each reader; `benchmarks/fuzz.py` tries them by the hundred thousand.
"""

from __future__ import annotations

import os
import pickle
import random
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz import attempt, fenced, limited, prepare, spoiled
from hostile_inputs import TARGETS
from placl import config as configuration
from placl.data.packed import read_pool
from placl.errors import InputError
from placl.models.weights import read_state
from placl.run.folder import read_split

INPUTS = 40


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_changed_was_sane(name: str, tmp_path: Path) -> None:
    prepare(TARGETS[name], tmp_path)
    assert attempt(TARGETS[name], tmp_path, TARGETS[name].sane) == "read"


@pytest.mark.parametrize("name", TARGETS)
def test_changed_files(name: str, tmp_path: Path) -> None:
    target, draw = TARGETS[name], random.Random(7)
    prepare(target, tmp_path)
    with limited(), fenced(tmp_path):
        found = {attempt(target, tmp_path, spoiled(target.sane, draw)) for _ in range(INPUTS)}
    assert found <= {"read", "refused"}


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=200))
def test_any_bytes(name: str, tmp_path: Path, content: bytes) -> None:
    prepare(TARGETS[name], tmp_path)
    with limited(), fenced(tmp_path):
        assert attempt(TARGETS[name], tmp_path, content) in ("read", "refused")


# --- by hand: what strangers are known to send


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch owned",)


def test_a_pickle_in_a_weights_file_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": {"a": torch.zeros(1)}, "evil": Evil()}, tmp_path / "zip.pth")
    (tmp_path / "bare.pth").write_bytes(pickle.dumps({"evil": Evil()}))
    (tmp_path / "cut.pth").write_bytes(b"G")  # a number without its bytes
    for name in ("zip.pth", "bare.pth", "cut.pth"):
        with pytest.raises(InputError, match=name):
            read_state(tmp_path / name)
    assert not (tmp_path / "owned").exists()


def test_an_array_of_objects_is_not_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pool.json").write_text('{"format": 1, "view": 1.0, "ids": [], "skeleton": {}}')
    for name in ("keypoints", "visibility", "length", "area", "to_image", "image", "crops"):
        np.save(tmp_path / f"{name}.npy", np.array([Evil()], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="is not a packed pool"):
        read_pool(tmp_path)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    "text",
    [
        "seed: !!python/object/apply:os.system ['touch owned']\n",
        "seed: 2001-99-99\n",
        "[" * 5000,
        "seed: " + "9" * 5000,
        "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nseed: " + "[" * 1 + "*c, *c]\n",
        "<<: *nothing\n",
        "? [a, b]\n: c\n",
        "? {a: b}\n: c\n",
    ],
    ids=["tag", "date", "deep", "long", "aliases", "unknown alias", "list as key", "mapping as key"],
)
def test_a_configuration_that_is_an_attack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        configuration.load(tmp_path / "mine.yaml")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "owned").exists()


def test_laughter_by_the_billion(tmp_path: Path) -> None:
    lines = ["l0: &l0 [ha, ha, ha, ha, ha, ha, ha, ha, ha]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 10)]
    target = TARGETS["config"]
    with limited():
        assert attempt(target, tmp_path, ("\n".join(lines) + "\nseed: *l9\n").encode()) == "refused"


def test_a_split_that_is_nested_without_end(tmp_path: Path) -> None:
    (tmp_path / "split.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match=r"split\.json: is damaged"):
        read_split(tmp_path)


def test_nothing_is_unpacked() -> None:
    """Archives are for people to unpack: no code of ours opens one."""
    source = Path(configuration.__file__).parent
    opened = [
        file.name for file in source.rglob("*.py") if "tarfile" in (text := file.read_text()) or "zipfile" in text
    ]
    assert opened == []


def test_a_png_that_inflates_to_gigabytes(tmp_path: Path) -> None:
    head = b"\x89PNG\r\n\x1a\n"

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = zlib.crc32(kind + content).to_bytes(4, "big")
        return len(content).to_bytes(4, "big") + kind + content + check

    size = (60_000).to_bytes(4, "big") * 2
    bomb = head + chunk(b"IHDR", size + b"\x08\x02\x00\x00\x00") + chunk(b"IDAT", zlib.compress(b"\0" * 1_000_000))
    with limited():
        assert attempt(TARGETS["png"], tmp_path, bomb + chunk(b"IEND", b"")) == "refused"


def test_a_link_out_of_the_folder_is_not_written_through(tmp_path: Path) -> None:
    from placl.files import write_atomic

    outside, inside = tmp_path / "outside.txt", tmp_path / "run" / "metrics.json"
    outside.write_text("mine")
    inside.parent.mkdir()
    inside.symlink_to(outside)
    write_atomic(inside, "new")
    assert outside.read_text() == "mine"
    assert inside.read_text() == "new"

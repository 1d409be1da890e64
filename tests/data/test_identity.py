"""Equal images are known under other names, as links and as copies in other sources."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from placl.data.identity import identify


def test_links_are_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"one")
    os.link(tmp_path / "a.png", tmp_path / "b.png")
    os.symlink(tmp_path / "a.png", tmp_path / "c.png")
    ((a, b, c),) = identify([[tmp_path / name for name in ("a.png", "b.png", "c.png")]])
    assert a == b == c


def test_copies_are_the_same_in_different_sources(tmp_path: Path) -> None:
    for name, content in (("a.png", b"one"), ("b.png", b"two"), ("c.png", b"longer")):
        (tmp_path / name).write_bytes(content)
    shutil.copy(tmp_path / "a.png", tmp_path / "copy.png")
    first, second = identify(
        [[tmp_path / name for name in ("a.png", "b.png", "c.png")], [tmp_path / "copy.png", tmp_path / "gone.png"]]
    )
    assert first[0] == second[0]
    assert len({*first, *second}) == 4


def test_a_file_that_has_changed_is_another(tmp_path: Path) -> None:
    paths = [[tmp_path / "a.png"], [tmp_path / "b.png"]]
    for (path,) in paths:
        path.write_bytes(b"one")
    assert identify(paths)[0] == identify(paths)[1]
    paths[1][0].write_bytes(b"two")
    os.utime(paths[1][0], ns=(1, 1))
    assert identify(paths)[0] != identify(paths)[1]

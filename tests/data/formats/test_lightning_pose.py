"""Lightning Pose: a folder with its table at the top, views and new videos, and the way back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placl.data.formats import deeplabcut
from placl.data.formats.format import Options
from placl.data.formats.lightning_pose import FORMAT, read_lightning_pose, write_lightning_pose
from placl.data.instances import Instances
from placl.data.skeleton import Skeleton
from placl.errors import InputError

HEADER = "scorer,rick,rick,rick,rick\nbodyparts,earL,earL,earR,earR\ncoords,x,y,x,y\n"
ROWS = "labeled-data/img1.png,1,2.5,,\nlabeled-data/img0.png,3,4,5,6\n"


def folder(
    root: Path, images: tuple[str, ...] = ("img0.png", "img1.png", "img2.png"), table: str = HEADER + ROWS
) -> Path:
    for name in images:
        file = root / "labeled-data" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (root / "CollectedData.csv").write_text(table)
    return root


def read(path: Path) -> Instances:
    return read_lightning_pose(path, Options()).instances


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_reads_rows_then_images_without_one(tmp_path: Path) -> None:
    instances = read(folder(tmp_path))
    assert instances.skeleton == Skeleton(("earL", "earR"), (), ((0, 1),))
    assert instances.ids == ("labeled-data/img1.png", "labeled-data/img0.png", "labeled-data/img2.png")
    assert instances.images[0] == tmp_path / "labeled-data/img1.png"
    assert instances.keypoints.tolist() == [[[1, 2.5], [0, 0]], [[3, 4], [5, 6]], [[0, 0], [0, 0]]]
    assert instances.visibility.tolist() == [[2, 0], [2, 2], [0, 0]]
    assert np.isnan(instances.boxes).all()
    assert instances.splits == ()


def test_a_csv_is_its_rows_alone(tmp_path: Path) -> None:
    file = folder(tmp_path) / "CollectedData.csv"
    assert FORMAT.claims(file)
    assert len(read(file)) == 2


def test_videos_are_noted(tmp_path: Path) -> None:
    (folder(tmp_path) / "videos").mkdir()
    (tmp_path / "videos/a.mp4").touch()
    (tmp_path / "videos/a.csv").touch()
    notes = read_lightning_pose(tmp_path, Options()).notes
    assert notes == ("videos/a.mp4: a video; name it as an unlabelled source to use its frames.",)
    for name in "bcde":
        (tmp_path / f"videos/{name}.mp4").touch()
    notes = read_lightning_pose(tmp_path, Options()).notes
    assert notes == ("videos: 5 videos; name the folder as an unlabelled source to use their frames.",)


def test_labels_of_new_videos_are_for_the_test(tmp_path: Path) -> None:
    folder(tmp_path, ("img0.png", "img1.png", "img2.png", "new/a.png", "new/b.png"))
    (tmp_path / "CollectedData_new.csv").write_text(HEADER + "labeled-data/new/a.png,1,2,3,4\n")
    found = read_lightning_pose(tmp_path, Options())
    assert found.instances.ids[2:] == ("labeled-data/new/a.png", "labeled-data/img2.png")  # new/b.png is left out
    assert found.instances.splits == ("train", "train", "test", "train")
    assert "CollectedData_new.csv: its images are the test split" in found.notes[0]


def test_an_image_in_two_tables(tmp_path: Path) -> None:
    folder(tmp_path)
    (tmp_path / "CollectedData_new.csv").write_text(HEADER + "labeled-data/img0.png,1,2,3,4\n")
    assert refusal(tmp_path) == (
        f'{tmp_path / "CollectedData_new.csv"}: image "labeled-data/img0.png" is in another table as well. Keep one.'
    )


def test_a_table_for_each_view(tmp_path: Path) -> None:
    folder(tmp_path, ("top/0.png", "bot/0.png")).joinpath("CollectedData.csv").unlink()
    for view in ("top", "bot"):
        (tmp_path / f"CollectedData_{view}.csv").write_text(HEADER + f"labeled-data/{view}/0.png,1,2,3,4\n")
    assert FORMAT.claims(tmp_path)
    assert read(tmp_path).ids == ("labeled-data/bot/0.png", "labeled-data/top/0.png")


def test_one_of_the_two_formats_claims(tmp_path: Path) -> None:
    folder(tmp_path / "lp")
    folder(tmp_path / "dlc", ("v/img0.png", "v/img1.png"))
    (tmp_path / "dlc/CollectedData.csv").rename(tmp_path / "dlc/labeled-data/v/CollectedData_rick.csv")
    for path, own in (("lp", True), ("lp/CollectedData.csv", True), ("dlc", False), ("dlc/labeled-data/v", False)):
        assert FORMAT.claims(tmp_path / path) == own
        assert deeplabcut.FORMAT.claims(tmp_path / path) != own
    config = "scorer: rick\nvideo_sets:\nbodyparts: [earL, earR]\n"
    (tmp_path / "lp/config.yaml").write_text(config)  # DeepLabCut's mark
    assert not FORMAT.claims(tmp_path / "lp")
    assert not FORMAT.claims(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ("", "is empty"),
        (HEADER + "labeled-data/img0.png,1,2,3\n", "line 4 has 4 cells, the first has 5"),
        (HEADER + "labeled-data/img9.png,1,2,3,4\n", 'image "labeled-data/img9.png" does not exist under'),
        (HEADER.replace("bodyparts,", "individuals,a,a,a,a\nbodyparts,"), "Read it with --format deeplabcut"),
    ],
)
def test_broken_table(tmp_path: Path, table: str, complaint: str) -> None:
    file = folder(tmp_path, table=table) / "CollectedData.csv"
    message = refusal(file)
    assert complaint in message
    assert message.startswith(f"{file}: ")


def test_nothing_there(tmp_path: Path) -> None:
    assert "holds no CollectedData.csv" in refusal(tmp_path)
    assert "does not exist" in refusal(tmp_path / "nowhere")


@settings(deadline=None, max_examples=40)
@given(given=st.lists(st.none() | st.tuples(*[st.floats(-1e6, 1e6, width=32)] * 2), min_size=6, max_size=6))
def test_what_is_written_reads_back_the_same(
    tmp_path_factory: pytest.TempPathFactory, given: list[tuple[float, float] | None]
) -> None:
    root = tmp_path_factory.mktemp("set")
    cells = ["," if point is None else f"{point[0]!r},{point[1]!r}" for point in given]
    rows = [f"labeled-data/img{i}.png,{cells[2 * i]},{cells[2 * i + 1]}\n" for i in range(3)]
    first = read(folder(root, table=HEADER + "".join(rows)))
    assert (first.visibility > 0).sum() == 6 - given.count(None)
    assert write_lightning_pose(first, root / "out") == [root / "out/CollectedData.csv"]
    assert FORMAT.claims(root / "out")
    back = read(root / "out")
    assert back.ids == first.ids
    assert back.images == first.images
    assert back.skeleton == first.skeleton
    assert np.array_equal(back.keypoints, first.keypoints)
    assert np.array_equal(back.visibility, first.visibility)


def test_two_animals_to_an_image_cannot_be_written(tmp_path: Path) -> None:
    first = read(folder(tmp_path))
    doubled = replace(first, image_index=np.zeros(3, np.int64))
    with pytest.raises(InputError, match=r"img1.png has 2 labelled instances and Lightning Pose knows one") as caught:
        write_lightning_pose(doubled, tmp_path / "out")
    assert "\n" not in str(caught.value)


@pytest.mark.realdata
def test_mirrored_mouse(shared: Path, tmp_path: Path) -> None:
    path = shared / "formats/lightning_pose"
    assert FORMAT.claims(path)
    found = read_lightning_pose(path, Options())
    instances = found.instances
    assert instances.visibility.shape == (93, 17)
    assert instances.labelled.sum() == 90
    assert instances.skeleton is not None
    assert instances.skeleton.flip_pairs == ()  # paw1LH and paw4RH: the numbers differ, too
    assert instances.keypoints[0, 1].tolist() == [253.5, np.float32(101.900392541708)]
    assert instances.visibility[0, 4:6].tolist() == [0, 0]
    assert found.notes == ("videos/test_vid.mp4: a video; name it as an unlabelled source to use its frames.",)
    write_lightning_pose(instances, tmp_path / "CollectedData.csv")
    back = read(tmp_path)
    assert back.ids == instances.ids
    assert np.array_equal(back.keypoints, instances.keypoints)
    assert np.array_equal(back.visibility, instances.visibility)

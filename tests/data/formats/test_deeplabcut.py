"""DeepLabCut: projects, folders and csv files as its versions write them, what is refused, and the way back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from placl.data.formats.deeplabcut import FORMAT, read_deeplabcut, write_deeplabcut
from placl.data.formats.format import Options
from placl.data.instances import Instances
from placl.data.skeleton import Skeleton
from placl.errors import InputError

CONFIG = """
scorer: Ada
video_sets:
  ? C:\\videos\\a.mp4
  : crop: 0, 640, 0, 480
bodyparts:
- snout
- leftear
- rightear
skeleton:
- - snout
  - leftear
- - objectA
  - snout
"""
SINGLE = """scorer,Ada,Ada,Ada,Ada,Ada,Ada
bodyparts,snout,snout,leftear,leftear,rightear,rightear
coords,x,y,x,y,x,y
labeled-data/v1/img0.png,1.5,2,3,4,0,0
labeled-data/v1/img1.png,,,5.25,6,,
labeled-data/v1/img2.png,,,,,,
"""
MULTI = """scorer,,,Ada,Ada,Ada,Ada,Ada,Ada,Ada,Ada,Ada,Ada
individuals,,,mus1,mus1,mus1,mus1,mus2,mus2,mus2,mus2,single,single
bodyparts,,,snout,snout,tail,tail,snout,snout,tail,tail,corner,corner
coords,,,x,y,x,y,x,y,x,y,x,y
labeled-data,v1,img0.png,1,2,3,4,5,6,7,8,9,10
labeled-data,v1,img1.png,,,,,11,12,,,13,14
labeled-data,v1,img2.png,,,,,,,,,15,16
"""


def project(root: Path, table: str = SINGLE, *, config: str = CONFIG, frames: int = 4) -> Path:
    folder = root / "labeled-data" / "v1"
    folder.mkdir(parents=True)
    for i in range(frames):
        (folder / f"img{i}.png").touch()
    (folder / "CollectedData_Ada.csv").write_text(table)
    if config:
        (root / "config.yaml").write_text(config)
    return root


def read(path: Path, **options: Any) -> Instances:
    return read_deeplabcut(path, Options(**options)).instances


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        read(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def assert_same(found: Instances, expected: Instances) -> None:
    assert found.skeleton == expected.skeleton
    assert found.images == expected.images
    assert found.ids == expected.ids
    for name in ("image_index", "boxes", "keypoints", "visibility", "area", "drawn"):
        a, b = getattr(found, name), getattr(expected, name)
        assert a.dtype == b.dtype, name
        assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), name


def test_a_single_animal_project(tmp_path: Path) -> None:
    found = read_deeplabcut(project(tmp_path), Options())
    instances = found.instances
    assert instances.skeleton == Skeleton(("snout", "leftear", "rightear"), ((0, 1),), ((1, 2),))
    assert instances.ids == tuple(f"labeled-data/v1/img{i}.png" for i in range(4))  # img3 is in no row
    assert instances.images == tuple(tmp_path / "labeled-data/v1" / f"img{i}.png" for i in range(4))
    assert instances.keypoints[0].tolist() == [[1.5, 2], [3, 4], [0, 0]]
    assert instances.keypoints[1].tolist() == [[0, 0], [5.25, 6], [0, 0]]
    assert instances.visibility.tolist() == [[2, 2, 2], [0, 2, 0], [0, 0, 0], [0, 0, 0]]  # 0, 0 is a label
    assert np.isnan(instances.boxes).all()
    assert found.notes == ()


def test_a_multi_animal_project_with_its_index_in_three_columns(tmp_path: Path) -> None:
    found = read_deeplabcut(project(tmp_path, MULTI, config=""), Options())
    instances = found.instances
    name = "labeled-data/v1/img"
    assert instances.ids == (
        f"{name}0.png#mus1",
        f"{name}0.png#mus2",
        f"{name}1.png#mus2",
        f"{name}2.png",
        f"{name}3.png",
    )
    assert instances.image_index.tolist() == [0, 0, 1, 2, 3]
    assert instances.keypoints[:3].tolist() == [[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[11, 12], [0, 0]]]
    assert instances.visibility.tolist() == [[2, 2], [2, 2], [2, 0], [0, 0], [0, 0]]
    assert instances.boxes[:2].tolist() == [[1, 2, 3, 3], [5, 6, 3, 3]]
    assert np.isnan(instances.boxes[2:]).all()
    assert instances.drawn is not None
    assert instances.drawn.tolist() == [True, True, False, False, False]
    assert found.notes == ("CollectedData_Ada.csv: unique bodyparts left out, they belong to no animal: corner.",)


@pytest.mark.parametrize("place", ["", "config.yaml", "labeled-data", "labeled-data/v1"])
def test_a_project_may_be_named_by_its_parts(tmp_path: Path, place: str) -> None:
    whole = read(project(tmp_path))
    assert FORMAT.claims(tmp_path / place)
    assert_same(read(tmp_path / place), whole)


def test_one_file_is_its_rows_alone_with_the_edges_of_its_project(tmp_path: Path) -> None:
    file = project(tmp_path) / "labeled-data/v1/CollectedData_Ada.csv"
    assert FORMAT.claims(file)
    instances = read(file)
    assert len(instances) == 3
    assert instances.skeleton is not None
    assert instances.skeleton.edges == ((0, 1),)


def test_backslashes_and_another_place(tmp_path: Path) -> None:
    table = SINGLE.replace("labeled-data/v1/", "labeled-data\\v1\\")
    assert read(project(tmp_path, table)).ids[0] == "labeled-data/v1/img0.png"
    moved = tmp_path / "elsewhere.csv"
    moved.write_text(SINGLE.replace("labeled-data/v1/", "labeled-data/gone/"))
    assert 'image "labeled-data/gone/img0.png" does not exist' in refusal(moved)
    assert read(moved, images=tmp_path / "labeled-data/v1").images[0].name == "img0.png"


def test_keypoints_are_renamed(tmp_path: Path) -> None:
    skeleton = read(project(tmp_path), keypoints=("s", "l_e", "r_e")).skeleton
    assert skeleton == Skeleton(("s", "l_e", "r_e"), ((0, 1),), ((1, 2),))
    assert "has 3 bodyparts, --keypoints names 1" in refusal(tmp_path, keypoints=("s",))


def test_tables_of_a_project_may_lack_bodyparts(tmp_path: Path) -> None:
    root = project(tmp_path)
    (root / "labeled-data/v0").mkdir()
    (root / "labeled-data/v0/a.png").touch()
    header = "scorer,Ada,Ada,Ada,Ada\nbodyparts,extra,extra,rightear,rightear\ncoords,x,y,x,y\n"
    (root / "labeled-data/v0/CollectedData_Ada.csv").write_text(header + "labeled-data/v0/a.png,1,2,3,4\n")
    instances = read(root)
    assert instances.skeleton is not None
    assert instances.skeleton.keypoints == ("snout", "leftear", "rightear", "extra")  # the project's order, then others
    assert instances.visibility[0].tolist() == [0, 0, 2, 2]
    assert instances.visibility[1].tolist() == [2, 2, 2, 0]


def test_plotted_labels_other_scorers_and_lost_frames_are_left_out(tmp_path: Path) -> None:
    root = project(tmp_path, SINGLE + "labeled-data/v1/lost.png,,,,,,\n")
    (root / "labeled-data/v1_labeled").mkdir()
    (root / "labeled-data/v1_labeled/img0.png").touch()
    (root / "labeled-data/v1/CollectedData_Aaron.csv").write_text("broken")
    found = read_deeplabcut(root, Options())
    assert len(found.instances) == 4
    assert found.notes == (
        "v1/CollectedData_Aaron.csv: left out, CollectedData_Ada.csv is read. Name the file to read it.",
        "labeled-data/v1_labeled: left out, labels are drawn on its images.",
        'CollectedData_Ada.csv: 1 unlabelled rows without an image left out ("labeled-data/v1/lost.png").',
    )


def test_a_project_without_labels_has_bodyparts(tmp_path: Path) -> None:
    (project(tmp_path) / "labeled-data/v1/CollectedData_Ada.csv").unlink()
    assert FORMAT.claims(tmp_path)
    instances = read(tmp_path)
    assert instances.visibility.shape == (4, 3)
    assert not instances.labelled.any()


HEAD = "".join(SINGLE.splitlines(keepends=True)[:3])
ROW = "labeled-data/v1/img0.png"
BROKEN = {
    "empty": ("", "is empty"),
    "no header": ("a,b\n1,2\n", "its first rows are not scorer, bodyparts, coords"),
    "one line": ("scorer,Ada,Ada\n", "its first rows are not"),
    "no rows": ('scorer,A,A\nbodyparts,a,a\ncoords,x,y\n', "lists no images"),
    "no columns": ("scorer\nbodyparts\ncoords\nimg0.png\n", "has no columns of bodyparts"),
    "cut off": (f"{HEAD}{ROW},1,2,3", "line 4 has 4 cells, the first has 7"),
    "header cut off": (SINGLE.replace("coords,x,y,x,y,x,y", "coords,x,y"), "line 3 has 3 cells"),
    "text": (f"{HEAD}{ROW},1,2,3,four,5,6\n", 'line 4 (labeled-data/v1/img0.png): "four" is not a number'),
    "infinite": (f"{HEAD}{ROW},1,2,3,inf,5,6\n", 'bodypart "leftear" has a coordinate that is not finite'),
    "huge": (f"{HEAD}{ROW},1,2,3,4,1e300,6\n", 'bodypart "rightear" has a coordinate that is not finite'),
    "half": (f"{HEAD}{ROW},1,,3,4,5,6\n", 'bodypart "snout" has only one of x and y'),
    "twice": (f"{HEAD}{ROW},1,2,3,4,5,6\n{ROW},1,2,3,4,5,6\n", f'image "{ROW}" occurs twice'),
    "no name": (f"{HEAD},1,2,3,4,5,6\n", "has no name"),
    "one file twice": (f"{HEAD}{ROW},1,2,3,4,5,6\nimg0.png,1,2,3,4,5,6\n", "both lead to"),
    "missing image": (f"{HEAD}img9.png,1,2,3,4,5,6\n", 'image "img9.png" does not exist'),
    "predictions": (
        f"scorer,A,A,A\nbodyparts,a,a,a\ncoords,x,y,likelihood\n{ROW},1,2,0.9\n",
        "holds predictions (it has likelihood columns)",
    ),
    "three dimensions": ("scorer,A,A,A\nbodyparts,a,a,a\ncoords,x,y,z\n", 'column "a" "z" is not an x or y'),
    "two scorers": ("scorer,A,A,B,B\nbodyparts,a,a,a,a\ncoords,x,y,x,y\n", 'has two columns "a" "x"'),
    "no y": ("scorer,A\nbodyparts,a\ncoords,x\n", 'bodypart "a" has no y column'),
    "quote": (f'{HEAD}"{ROW},1,2', "is not a csv file"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_broken_table(tmp_path: Path, case: str) -> None:
    content, complaint = BROKEN[case]
    file = project(tmp_path, content) / "labeled-data/v1/CollectedData_Ada.csv"
    message = refusal(file)
    assert complaint in message
    assert message.startswith(f"{file}: ")


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        (CONFIG + "x: [", "config.yaml: is not YAML"),
        (CONFIG + "skeleton: 3", '"skeleton" is not a list'),
        (CONFIG + "skeleton: [3]", '"skeleton" does not list names'),
        (CONFIG + "bodyparts: [[a]]", '"bodyparts" does not list names'),
    ],
)
def test_broken_config(tmp_path: Path, config: str, complaint: str) -> None:
    assert complaint in refusal(project(tmp_path, config=config))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"scorer,\xff\xfe")
    assert "is not a csv file" in refusal(file)
    assert not FORMAT.claims(file)
    assert "does not exist" in refusal(tmp_path / "nowhere")


def test_claims_only_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("image,x\n")
    (tmp_path / "config.yaml").write_text("data: here\n")
    (tmp_path / "labeled-data").mkdir()
    for name in ("", "a.csv", "config.yaml", "labeled-data", "nowhere", "nowhere.h5"):
        assert not FORMAT.claims(tmp_path / name)


@st.composite
def labels(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    """(R, I, K, 2) float32 coordinates of R images in some folders and which are labelled."""
    shape = (draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    size = int(np.prod(shape))
    number = st.floats(-1e6, 1e6, width=32)
    points = np.array(draw(st.lists(number, min_size=2 * size, max_size=2 * size)), np.float32).reshape(*shape, 2)
    known = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size))).reshape(shape)
    return points, known, draw(st.integers(1, 3))


@pytest.mark.parametrize("target", ["out", "out/all.csv"])
@settings(deadline=None, max_examples=40)
@given(given=labels())
def test_what_is_written_reads_back_the_same(
    tmp_path_factory: pytest.TempPathFactory, target: str, given: tuple[np.ndarray, np.ndarray, int]
) -> None:
    (points, known, folders), root = given, tmp_path_factory.mktemp("set")
    r, i, k = known.shape
    names = [f"labeled-data/v{image * folders // r}/img{image}.png" for image in range(r)]
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    columns = [(f"mus{a}", f"part{b}", c) for a in range(i) for b in range(k) for c in "xy"]
    rows = [",".join([title, *cells]) for title, *cells in [
        ["scorer", *("A" for _ in columns)],
        ["individuals", *(c[0] for c in columns)],
        ["bodyparts", *(c[1] for c in columns)],
        ["coords", *(c[2] for c in columns)],
        *([n, *np.where(np.isnan(p), "", p.astype(str)).ravel()]
          for n, p in zip(names, np.where(known[..., None], points, np.float32(np.nan)), strict=True)),
    ]]  # fmt: skip
    (root / "first.csv").write_text("\n".join(rows if i > 1 else rows[:1] + rows[2:]))
    first = read(root / "first.csv")
    assert first.visibility.sum() == 2 * known.sum()
    write_deeplabcut(first, root / target)
    assert_same(read(root / target), first)


def coco_like(tmp_path: Path, image_index: list[int], ids: tuple[str, ...]) -> Instances:
    n = len(ids)
    images = (tmp_path / "a/images/x.jpg", tmp_path / "b/images/x.jpg")
    for image in images:
        image.parent.mkdir(parents=True, exist_ok=True)
        image.touch()
    return Instances(
        skeleton=Skeleton(("nose", "tail")),
        images=images,
        image_index=np.array(image_index),
        boxes=np.full((n, 4), np.nan),
        keypoints=np.arange(4 * n, dtype=np.float32).reshape(n, 2, 2) / 3,
        visibility=np.full((n, 2), 1, np.uint8),
        area=np.full(n, np.nan, np.float32),
        ids=ids,
    )


def test_annotation_numbers_are_no_individuals(tmp_path: Path) -> None:
    instances = coco_like(tmp_path, [0, 0, 1], ("x.jpg#17", "x.jpg#18", "x.jpg#19"))
    config, *files = write_deeplabcut(instances, tmp_path / "out")
    folders = [tmp_path / "out/labeled-data" / name / "CollectedData_placl.csv" for name in ("images", "images_2")]
    assert files == folders
    assert yaml.safe_load(config.read_text())["individuals"] == ["individual1", "individual2"]
    assert files[0].read_text().splitlines()[1].split(",")[::4] == ["individuals", "individual1", "individual2"]
    back = read(tmp_path / "out")
    assert back.images == instances.images
    assert back.ids == ("a/images/x.jpg#individual1", "a/images/x.jpg#individual2", "b/images/x.jpg#individual1")
    assert np.array_equal(back.keypoints, instances.keypoints)
    assert (back.visibility == 2).all()  # that they are occluded is lost


def test_one_instance_to_an_image_is_a_single_animal_table(tmp_path: Path) -> None:
    instances = coco_like(tmp_path, [0, 1], ("x.jpg#17", "x.jpg#18"))
    (file,) = write_deeplabcut(instances, tmp_path / "deep/er/labels.csv")
    assert file.read_text().splitlines()[:4] == [
        "scorer,placl,placl,placl,placl",
        "bodyparts,nose,nose,tail,tail",
        "coords,x,y,x,y",
        "../../a/images/x.jpg,0.0,0.33333334,0.6666667,1.0",
    ]


def test_individuals_keep_the_order_they_have_in_every_image(tmp_path: Path) -> None:
    table = MULTI.replace("img0.png,1,2,3,4,5,6,7,8", "img0.png,,,,,5,6,7,8")  # mus2 appears first
    first = read(project(tmp_path, table.replace("img2.png,,,,,,,,", "img2.png,1,1,,,2,2,,"), config=""))
    assert [identity.partition("#")[2] for identity in first.ids] == ["mus2", "mus2", "mus1", "mus2", ""]
    write_deeplabcut(first, tmp_path / "out")
    assert_same(read(tmp_path / "out"), first)


def test_nothing_to_write_without_keypoints(tmp_path: Path) -> None:
    instances = coco_like(tmp_path, [0], ("x.jpg#1",))
    plain = replace(instances, skeleton=None, keypoints=np.zeros((1, 0, 2)), visibility=np.zeros((1, 0)))
    with pytest.raises(InputError, match="no source names keypoints"):
        write_deeplabcut(plain, tmp_path / "out")


@pytest.mark.realdata
def test_openfield(shared: Path, tmp_path: Path) -> None:
    path = shared / "formats/dlc_openfield"
    assert FORMAT.claims(path)
    instances = read(path)
    assert instances.visibility.shape == (40, 4)
    assert instances.labelled.all()
    assert instances.skeleton == Skeleton(("snout", "leftear", "rightear", "tailbase"), (), ((1, 2),))
    assert instances.keypoints[0, 2].tolist() == [np.float32(19.984), np.float32(250.05599999999998)]
    write_deeplabcut(instances, tmp_path)
    back = read(tmp_path)
    assert [image.resolve() for image in back.images] == [image.resolve() for image in instances.images]
    assert_same(replace(back, images=instances.images), instances)

"""The paper's datasets: who trains, validates and tests, and what is said where counts differ."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from pictures import picture, save
from placl import config as configuration
from placl.data import protocols
from placl.data.formats import mpii
from placl.data.formats.format import Options
from placl.data.load import load_dataset, read_instances
from placl.data.protocols import ANIMALS, PROTOCOLS, protocol_named, read_protocol
from placl.errors import InputError


def sizes(roles: list[tuple[str, Any]]) -> dict[str, int]:
    return {role: len(part.images) for role, part in roles}


def test_counts_and_metrics_are_the_papers() -> None:
    # Section 4.1, word for word: "10,000 images ... for training and 2,000 images ... for validation and testing", ...
    counts = {name: tuple(protocol.counts.values()) for name, protocol in PROTOCOLS.items()}
    assert counts["lspet"] == (10_000, 1_000, 1_000)
    assert counts["mpii"] == (10_000, 3_311)
    assert counts["cub"] == (5_864, 2_958, 2_966)
    assert counts["atrw"] == (3_610, 516, 1_033)
    assert counts["animalpose"] == (2_798, 810, 1_000)
    assert counts["coco"] == (500,)
    scored = {name: (protocol.metric, protocol.alpha) for name, protocol in PROTOCOLS.items()}
    assert [scored[name] for name in ("lspet", "cub", "atrw")] == [("pck", 0.1)] * 3
    assert scored["mpii"] == scored["mpii_full"] == ("pckh", 0.5)
    assert scored["coco"] == scored["animalpose"] == ("oks", None)


@pytest.mark.realdata
def test_the_papers_text_has_these_counts(shared: Path) -> None:
    (text,) = (file.read_text(errors="replace") for file in (shared / "paper").glob("*.txt"))
    for name in ("cub", "atrw", "animalpose", "mpii"):
        for count in PROTOCOLS[name].counts.values():
            assert f"{count:,}" in text or str(count) in text, (name, count)


def test_birds_are_divided_by_species(cub_folder: Path) -> None:
    roles, notes = read_protocol("cub", cub_folder)
    found = {role: sorted(part.classes) for role, part in roles}
    assert found == {"labelled": ["001.Wren", "100.Owl"], "val": ["101.Gull"], "test": ["200.Kite"]}
    assert notes[-3:] == [
        "cub: 2 labelled images, the paper has 5,864.",
        "cub: 1 val images, the paper has 2,958.",
        "cub: 1 test images, the paper has 2,966.",
    ]


def test_people_of_lspet_train_and_those_of_lsp_validate_and_test(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    extended = np.concatenate([random.uniform(1, 40, (14, 2, 10_000)), np.ones((14, 1, 10_000))], axis=1)
    original = np.concatenate([random.uniform(1, 40, (2, 14, 2_000)), np.zeros((1, 14, 2_000))])
    for name, joints, images in (
        ("lspet", extended, ("im00001.jpg", "im10000.jpg")),
        ("lsp", original, ("im0001.jpg", "im1000.jpg", "im1001.jpg")),
    ):
        (tmp_path / name / "images").mkdir(parents=True)
        scipy.io.savemat(tmp_path / name / "joints.mat", {"joints": joints})
        for seed, image in enumerate(images):  # no two alike, or one would be a copy of the other
            save(tmp_path / name / "images" / image, picture(seed=10 * len(name) + seed))
    roles, _ = read_protocol("lspet", tmp_path)
    assert sizes(roles) == {"labelled": 2, "val": 2, "test": 1}
    # No box but those around keypoints: the protocol uses them also where labels are hidden, as everybody does.
    config = configuration.load(
        None,
        {
            "data.protocol": "lspet",
            "data.root": str(tmp_path),
            "data.label_fraction": 0.5,
            "data.cache": str(tmp_path / "c"),
        },
    )
    assert len(load_dataset(config.data, 32).pool) == 5


@pytest.mark.parametrize("name", ["Wren", "x1.Wren", ".Wren"])
def test_a_species_without_a_number_is_named(cub_folder: Path, name: str) -> None:
    file = cub_folder / "classes.txt"
    file.write_text(file.read_text().replace("001.Wren", name))
    with pytest.raises(InputError, match=f'classes.txt: class "{name}" does not begin with its number') as caught:
        read_protocol("cub", cub_folder)
    assert "\n" not in str(caught.value)


def mpii_file(file: Path, images: list[str], start: int) -> None:
    people = []
    for number, image in enumerate(images, start=start):
        save(file.parents[1] / "images" / image, picture(seed=number))
        joints = [[float(5 + j), float(number + j)] for j in range(16)]
        people.append({"image": image, "joints": joints, "joints_vis": [1] * 16, "scale": 0.2, "center": [30.0, 20.0]})
    file.write_text(json.dumps(people))


def test_mpii_holds_validation_images_out(tmp_path: Path) -> None:
    for folder in ("annot", "images"):
        (tmp_path / folder).mkdir()
    mpii_file(tmp_path / "annot" / "train.json", [f"{i}.jpg" for i in range(8)], 0)
    mpii_file(tmp_path / "annot" / "valid.json", ["100.jpg", "101.jpg"], 100)
    roles, notes = read_protocol("mpii", tmp_path)
    assert sizes(roles) == {"labelled": 6, "val": 2, "test": 2}
    assert any("no head sizes" in note for note in notes)
    again, _ = read_protocol("mpii", tmp_path)
    assert [part.ids for _, part in again] == [part.ids for _, part in roles]  # drawn by a fixed seed


def test_mpii_takes_head_sizes_from_the_release(tmp_path: Path) -> None:
    people = [(0, 3.0), (1, 6.0)]  # number, which mpii_file makes joints of, and the head rectangle's sides
    for folder in ("annot", "images"):
        (tmp_path / folder).mkdir()
    mpii_file(tmp_path / "annot" / "train.json", ["0.jpg", "1.jpg", "2.jpg", "3.jpg"], 0)
    mpii_file(tmp_path / "annot" / "valid.json", ["100.jpg"], 100)
    joint = np.dtype([("x", object), ("y", object), ("id", object), ("is_visible", object)])
    image = np.dtype([("image", object), ("annorect", object)])
    annolist = np.empty((1, 2), image)
    for i, (number, side) in enumerate(people):
        points = np.array([[(5.0 + j, float(number + j), j, 1) for j in range(16)]], joint)
        head = {"x1": 1.0, "y1": 1.0, "x2": 1.0 + side, "y2": 1.0 + side}
        person = {**head, "annopoints": {"point": points}, "scale": 0.2, "objpos": {"x": 30.0, "y": 20.0}}
        annolist[0, i] = ({"name": f"{number}.jpg"}, person)
    release = {"annolist": annolist, "img_train": [[1, 1]]}
    scipy.io.savemat(tmp_path / "mpii_human_pose_v1_u12_1.mat", {"RELEASE": release})
    roles, _ = read_protocol("mpii", tmp_path)
    heads = {}
    for _, part in roles:
        assert part.head_length is not None
        heads |= {part.images[i].name: float(head) for i, head in zip(part.image_index, part.head_length, strict=True)}
    assert heads["0.jpg"] == pytest.approx(0.6 * 3 * 2**0.5)
    assert heads["1.jpg"] == pytest.approx(0.6 * 6 * 2**0.5)
    assert np.isnan(heads["2.jpg"])


def test_heads_that_are_known_stay_where_the_release_has_no_such_person(tmp_path: Path) -> None:
    for folder in ("annot", "images"):
        (tmp_path / folder).mkdir()
    mpii_file(tmp_path / "annot" / "train.json", ["0.jpg", "1.jpg"], 0)
    people = mpii.FORMAT.read(tmp_path / "annot" / "train.json", Options(images=tmp_path / "images")).instances
    listed = replace(people, head_length=np.array([7.0, 8.0], np.float32))
    release = replace(people.take(np.array([1])), head_length=np.array([9.0], np.float32))
    found = protocols._with_heads(listed, release).head_length
    assert found is not None
    assert found.tolist() == [7.0, 9.0]


def coco_file(file: Path, names: list[str], key: str = "file_name") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    category = {"id": 1, "name": "tiger", "keypoints": ["nose", "tail"], "skeleton": []}
    content = {
        "images": [{"id": i, key: name} for i, name in enumerate(names)],
        "annotations": [
            {"id": i, "image_id": i, "category_id": 1, "bbox": [1, 1, 30, 30], "keypoints": [5, 5, 2, 9, 9, 1]}
            for i in range(len(names))
        ],
        "categories": [category],
    }
    file.write_text(json.dumps(content))


def test_tigers_are_read_under_their_authors_names(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for part, names in (("train", ["1.jpg", "2.jpg"]), ("val", ["3.jpg"]), ("test", ["4.jpg"])):
        for name in names:
            save(tmp_path / "images" / name)
        coco_file(tmp_path / f"keypoint_{part}.json", names, key="filename")
    assert sizes(read_protocol("atrw", tmp_path)[0]) == {"labelled": 2, "val": 1, "test": 1}


def test_coco_holds_images_out(tmp_path: Path) -> None:
    for part, names in (("train2017", [f"{i}.jpg" for i in range(6)]), ("val2017", ["9.jpg"])):
        (tmp_path / part).mkdir()
        for name in names:
            save(tmp_path / part / name)
        coco_file(tmp_path / "annotations" / f"person_keypoints_{part}.json", names)
    assert sizes(read_protocol("coco", tmp_path)[0]) == {"labelled": 3, "val": 3, "test": 1}


def animalpose_folder(root: Path, count: int = 46) -> Path:
    (root / "images").mkdir(parents=True)
    names = [f"{i}.jpg" for i in range(count)]
    for seed, name in enumerate(names):  # no two alike, or one would be a copy of the other
        save(root / "images" / name, picture(seed=seed))
    category = {"keypoints": [f"k{i}" for i in range(20)], "skeleton": [[0, 1]]}
    classes = ("dog", "cat", "sheep", "horse", "cow")
    content = {
        "images": {str(i): name for i, name in enumerate(names)},
        "annotations": [
            {
                "image_id": i,
                "bbox": [1, 1, 30, 30],
                "keypoints": [[5, 5, 1]] * 20,
                "num_keypoints": 20,
                "category_id": i % 5 + 1,
            }
            for i in range(count)
        ],
        "categories": [{"id": i, "name": name, **category} for i, name in enumerate(classes, start=1)],
    }
    (root / "keypoints.json").write_text(json.dumps(content))
    return root


def test_animals_are_drawn_in_the_papers_proportions(tmp_path: Path) -> None:
    roles, _ = read_protocol("animalpose", animalpose_folder(tmp_path))
    assert sizes(roles) == {"labelled": 28, "val": 8, "test": 10}
    images = [image for _, part in roles for image in part.images]
    assert len(set(images)) == 46


def test_animals_of_mmposes_files_have_the_authors_sigmas(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for part, name in (("train", "1.jpg"), ("val", "2.jpg"), ("test", "3.jpg")):
        save(tmp_path / "images" / name)
        file = tmp_path / "annotations" / f"animalpose_{part}.json"
        file.parent.mkdir(exist_ok=True)
        content = {
            "images": [{"id": 1, "file_name": f"images/{name}"}],
            "annotations": [
                {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 1, 30, 30], "keypoints": [5, 5, 2] * 3}
            ],
            "categories": [{"id": 1, "name": "dog", "keypoints": ["L_Eye", "Nose", "L_F_Paw"], "skeleton": []}],
        }
        file.write_text(json.dumps(content))
    roles, _ = read_protocol("animalpose", tmp_path)
    assert sizes(roles) == {"labelled": 1, "val": 1, "test": 1}
    for _, part in roles:
        assert part.skeleton is not None
        assert part.skeleton.sigmas == (0.025, 0.035, 0.089)  # as mmpose has them


@pytest.mark.parametrize("target", ANIMALS)
def test_the_target_animal_validates_and_tests_and_the_others_have_labels(tmp_path: Path, target: str) -> None:
    folder, others = animalpose_folder(tmp_path), set(ANIMALS) - {target}
    roles, _ = read_protocol(f"animalpose_to_{target}", folder)
    classes = {role: set(part.classes) for role, part in roles}
    assert classes["unlabelled"] == classes["val"] == classes["test"] == {target}
    assert classes["labelled"] == others
    images = [image for _, part in roles for image in part.images]
    assert len(set(images)) == len(images)


def test_no_label_of_the_target_validates_where_the_source_is_asked_for(tmp_path: Path) -> None:
    folder = animalpose_folder(tmp_path)
    ids = {}
    for val_from in ("target", "source"):
        config = configuration.load(
            None,
            {
                "data.protocol": "animalpose_to_cat",
                "data.root": str(folder),
                "data.val_from": val_from,
                "data.cache": str(tmp_path / "c"),
            },
        )
        dataset = load_dataset(config.data, 32)
        roles, _ = read_protocol("animalpose_to_cat", folder, config.data.val_from)
        kinds = {role: set(part.classes) for role, part in roles}
        assert (kinds["val"] == {"cat"}) == (val_from == "target")
        ids[val_from] = {
            role: {name for name, own in zip(dataset.pool.ids, dataset.source, strict=True) if own == role}
            for role in ("labelled", "unlabelled", "test", "val")
        }
    for role in ("labelled", "unlabelled", "test"):  # what is trained on and what is asked is the same
        assert ids["target"][role] == ids["source"][role]
    assert not ids["target"]["val"] & ids["source"]["val"]


def test_a_source_class_without_an_instance_and_an_unknown_target(tmp_path: Path) -> None:
    folder = animalpose_folder(tmp_path)
    content = json.loads((folder / "keypoints.json").read_text())
    content["annotations"] = [a for a in content["annotations"] if a["category_id"] != 3]
    (folder / "keypoints.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"^animalpose_to_cat: class sheep has no labelled instance to train on\.$"):
        read_protocol("animalpose_to_cat", folder)
    with pytest.raises(InputError, match=r"^animalpose_to_sheep: class sheep, the target, has no image to train on\.$"):
        read_protocol("animalpose_to_sheep", folder)
    with pytest.raises(
        InputError, match=r'protocol "animalpose_to_cats" is unknown\. Did you mean "animalpose_to_cat"'
    ):
        read_protocol("animalpose_to_cats", folder)


@pytest.mark.realdata
def test_people_may_be_a_source_as_well(shared: Path) -> None:
    people = shared / "formats" / "coco" / "test_coco.json"
    given = {"data.protocol": "animalpose_to_cat", "data.root": str(shared / "formats" / "animalpose")}
    instances, role, notes = read_instances(configuration.load(None, {**given, "source": str(people)}).data)
    assert instances.skeleton is not None
    assert len(instances.skeleton) == 20
    person = np.array([name == "person" for name in instances.classes])
    assert set(role[person]) == {"labelled"}
    assert (instances.visibility[person] > 0).any(axis=0).sum() == 9
    assert any("9 of 17 keypoints are trained" in note for note in notes)


def test_a_protocol_brings_its_metric(tmp_path: Path) -> None:
    def metric(**overrides: object) -> tuple[str, float]:
        reward = configuration.load(None, {"data.protocol": "mpii", "data.root": str(tmp_path), **overrides}).reward
        return reward.metric, reward.alpha

    assert metric() == ("pckh", 0.5)
    assert metric(**{"reward.metric": "pck"})[0] == "pck"


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r'protocol "cab" is unknown\. Did you mean "cub"\?'):
        protocol_named("cab")
    with pytest.raises(InputError, match=r"data\.protocol=cub: name the folder of CUB-200-2011 with data\.root\."):
        read_protocol("cub", None)
    with pytest.raises(InputError, match="is not a folder"):
        read_protocol("cub", tmp_path / "nowhere")
    for name in ("lspet", "mpii", "coco", "atrw"):
        with pytest.raises(InputError, match="holds no"):
            read_protocol(name, tmp_path)

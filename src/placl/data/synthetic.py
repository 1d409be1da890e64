"""An embedded dataset of articulated animals, drawn by code: what the demo and many tests run on.

Each instance is a pure function of (seed, index). Animals come towards the viewer: one that faces right shows its right
side, one that faces left its left side, and limbs and ears of the far side stand ahead of the near ones. A mirrored
image with swapped pairs is a valid instance too.
"""

from __future__ import annotations

import json
from cmath import rect
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import radians
from pathlib import Path

import cv2
import numpy as np

from placl.data.pool import OCCLUDED, VISIBLE, Pool
from placl.data.skeleton import Skeleton, flip_pairs_by_name
from placl.data.synthetic_drawing import BODY, FAR, NEAR, Animal, Capsule, Mark, paint_scene
from placl.errors import InputError

CONTEXT = 1.25  # the network's view is this much longer than the box, as when cropping a dataset
BOX_PADDING = 0.05  # of the tight box's longest side, on every side
BOX_JITTER = 0.03  # boxes drawn by people are off by a few per cent
SPREAD = (0.14, 0.24)  # torso lengths by which the far limb of a pair stands ahead of their middle, the near one behind
STRIDE = 14  # degrees, at most, by which one swings ahead of their middle and the other behind
LEAST = {"count": 1, "seed": 0, "size": 16, "margin": 1}

KEYPOINTS = (
    "nose", "left_ear", "right_ear", "neck", "tail_base", "tail_tip",
    "left_front_knee", "left_front_paw", "right_front_knee", "right_front_paw",
    "left_hind_knee", "left_hind_paw", "right_hind_knee", "right_hind_paw",
)  # fmt: skip
BONES = (
    ("nose", "left_ear"), ("nose", "right_ear"), ("nose", "neck"), ("neck", "tail_base"), ("tail_base", "tail_tip"),
    ("neck", "left_front_knee"), ("left_front_knee", "left_front_paw"),
    ("neck", "right_front_knee"), ("right_front_knee", "right_front_paw"),
    ("tail_base", "left_hind_knee"), ("left_hind_knee", "left_hind_paw"),
    ("tail_base", "right_hind_knee"), ("right_hind_knee", "right_hind_paw"),
)  # fmt: skip
ANIMAL = Skeleton(
    keypoints=KEYPOINTS,
    edges=tuple((KEYPOINTS.index(a), KEYPOINTS.index(b)) for a, b in BONES),
    flip_pairs=flip_pairs_by_name(KEYPOINTS),
)


@dataclass(frozen=True)
class BodyPlan:
    """Radii and lengths in torso lengths, resting angles in degrees: rises, or swings of the part below a joint."""

    rear: float  # radius of the torso at the hip
    chest: float  # radius of the torso at the shoulder
    neck: float
    head: float
    skull: float  # radius
    ear: float
    front: float  # limbs
    hind: float
    limb: float  # radius
    tail: float
    tail_root: float  # radius
    pitch: float
    neck_rise: float
    tail_rise: float
    shoulder: float
    elbow: float
    hip: float
    stifle: float


ANGLES = {"pitch", "neck_rise", "tail_rise", "shoulder", "elbow", "hip", "stifle"}
BODY_PLANS = (
    BodyPlan(  # stocky, like a bear
        rear=0.27, chest=0.29, neck=0.3, head=0.36, skull=0.19, ear=0.22, front=0.56, hind=0.58, limb=0.085, tail=0.35,
        tail_root=0.06, pitch=0, neck_rise=25, tail_rise=20, shoulder=-10, elbow=5, hip=18, stifle=-20),
    BodyPlan(  # long legs and a long neck, like a deer
        rear=0.2, chest=0.22, neck=0.72, head=0.36, skull=0.12, ear=0.22, front=1, hind=1, limb=0.055, tail=0.5,
        tail_root=0.05, pitch=6, neck_rise=55, tail_rise=-35, shoulder=-8, elbow=8, hip=18, stifle=-25),
    BodyPlan(  # a long body on short legs, like a dachshund
        rear=0.15, chest=0.16, neck=0.24, head=0.32, skull=0.12, ear=0.2, front=0.38, hind=0.4, limb=0.055, tail=0.55,
        tail_root=0.05, pitch=0, neck_rise=40, tail_rise=30, shoulder=-15, elbow=10, hip=25, stifle=-30),
    BodyPlan(  # upright with small front limbs, like a kangaroo
        rear=0.27, chest=0.16, neck=0.24, head=0.3, skull=0.13, ear=0.3, front=0.46, hind=0.95, limb=0.07, tail=0.95,
        tail_root=0.12, pitch=52, neck_rise=70, tail_rise=-20, shoulder=35, elbow=75, hip=45, stifle=-35),
)  # fmt: skip


def individual(plan: BodyPlan, rng: np.random.Generator) -> BodyPlan:
    """An individual of a kind: every proportion and every resting angle differs a little."""
    values = asdict(plan)
    factors, turns = rng.uniform(0.8, 1.25, len(values)), rng.normal(0, 5, len(values))
    for (name, value), factor, turn in zip(values.items(), factors.tolist(), turns.tolist(), strict=True):
        values[name] = value + turn if name in ANGLES else value * factor
    return BodyPlan(**values)


def rising(length: float, rise: float) -> complex:
    """A vector that points right and rises by an angle in degrees (y runs downwards)."""
    return rect(length, -radians(rise))


class _Body:
    """Collects the parts of one animal that faces right, its hip at the origin, in torso lengths."""

    def __init__(self, plan: BodyPlan, rng: np.random.Generator) -> None:
        self.plan, self.rng = plan, rng
        self.points: dict[str, tuple[complex, int]] = {}
        self.capsules: tuple[list[Capsule], ...] = ([], [], [])
        self.marks: tuple[list[Mark], ...] = ([], [], [])
        bend = rng.uniform(-12, 12)
        self.waist = rising(0.5, plan.pitch - bend)
        self.chest = self.waist + rising(0.5, plan.pitch + bend)
        self.heading = self.chest / abs(self.chest)
        self.down = 1j * self.heading  # towards the belly

    def tail_and_torso(self) -> None:
        plan, rng = self.plan, self.rng
        at = -0.75 * plan.rear * self.heading - 0.35 * plan.rear * self.down
        self.points["tail_base"] = at, BODY
        rise, curl = plan.tail_rise + rng.uniform(-35, 35), rng.uniform(-35, 35)
        for i, (thick, thin) in enumerate(pairwise((1, 0.75, 0.5, 0.25))):
            start, at = at, at - rising(plan.tail / 3, -rise - i * curl)
            self.capsules[BODY].append(Capsule(start, thick * plan.tail_root, at, thin * plan.tail_root))
        self.points["tail_tip"] = at, BODY
        belly = (plan.rear + plan.chest) / 2 * rng.uniform(0.85, 1.2)
        self.capsules[BODY].append(Capsule(0j, plan.rear, self.waist, belly))
        self.capsules[BODY].append(Capsule(self.waist, belly, self.chest, plan.chest))

    def neck_and_head(self) -> None:
        plan, rng = self.plan, self.rng
        neck = self.chest - 0.35 * plan.chest * self.down
        neck_rise = plan.neck_rise + (rng.uniform(-25, 20) if rng.random() < 0.8 else rng.uniform(-85, -40))
        head_rise = neck_rise - rng.uniform(5, 65)
        skull = neck + rising(plan.neck, neck_rise)
        face, up = rising(1, head_rise), rising(1, head_rise + 90)
        nose = skull + plan.head * face
        self.points |= {"neck": (neck, BODY), "nose": (nose, BODY)}
        self.capsules[BODY].append(Capsule(neck, 0.6 * plan.chest, skull, 0.75 * plan.skull))
        self.capsules[BODY].append(Capsule(skull, plan.skull, nose, 0.55 * plan.skull))
        self.marks[BODY].append(Mark(nose, 0.45 * plan.skull, "nose"))
        self.marks[BODY].append(Mark(skull + 0.3 * plan.head * face + 0.25 * plan.skull * up, 0.035, "eye"))
        for side, depth, offset, turn in (("left", FAR, 0.3, -15), ("right", NEAR, -0.2, 40)):
            root = skull + plan.skull * (0.7 * up + offset * face)
            tip = root + rising(plan.ear, head_rise + 90 + turn + rng.uniform(-15, 15))
            self.points[f"{side}_ear"] = tip, depth
            self.capsules[depth].append(Capsule(root, 0.3 * plan.ear, tip, 0.1 * plan.ear))

    def limbs(self) -> None:
        plan, rng = self.plan, self.rng
        spread = rng.uniform(*SPREAD)
        shoulder = self.chest - 0.1 * self.heading + 0.45 * plan.chest * self.down
        hip = 0.05 * self.heading + 0.35 * plan.rear * self.down
        for end, joint, length, upper, lower, thigh in (
            ("front", shoulder, plan.front, plan.shoulder, plan.elbow, 1.2),
            ("hind", hip, plan.hind, plan.hip, plan.stifle, 1.7),
        ):
            swing, stride = rng.uniform(-16, 16), rng.uniform(-STRIDE, STRIDE)
            for side, depth, ahead in (("left", FAR, 1), ("right", NEAR, -1)):
                root, turn = joint + ahead * spread * self.heading, swing + ahead * stride
                knee = root + rising(0.52 * length, upper + turn - 90)
                paw = knee + rising(0.48 * length, lower + 0.6 * turn + rng.uniform(-15, 15) - 90)
                self.points |= {f"{side}_{end}_knee": (knee, depth), f"{side}_{end}_paw": (paw, depth)}
                self.capsules[depth].append(Capsule(root, thigh * plan.limb, knee, plan.limb))
                self.capsules[depth].append(Capsule(knee, plan.limb, paw, 0.8 * plan.limb))
                self.marks[depth].append(Mark(paw, 1.3 * plan.limb, "paw"))


def random_animal(rng: np.random.Generator) -> Animal:
    """A random individual in a random pose, in torso lengths, facing either way and leaning up to 40 degrees."""
    body = _Body(individual(BODY_PLANS[rng.integers(len(BODY_PLANS))], rng), rng)
    body.tail_and_torso()
    body.neck_and_head()
    body.limbs()
    points, depth = zip(*(body.points[name] for name in KEYPOINTS), strict=True)
    layers = tuple(map(tuple, body.capsules)), tuple(map(tuple, body.marks))
    animal = Animal(points, depth, *layers, heading=body.heading, unit=1.0)
    lean = rect(1, radians(rng.uniform(-40, 40)))
    if rng.random() < 0.5:
        return animal.moved(lambda z: lean * z, 1.0)
    return animal.moved(lambda z: lean * -z.conjugate(), 1.0, ANIMAL.flip_order.tolist())


def placed(animal: Animal, longest: float, centre: complex) -> Animal:
    """The animal with the longest side of its box and the box's centre in pixels."""
    corner, size = animal.box(BOX_PADDING)
    scale = longest / max(size.real, size.imag)
    return animal.moved(lambda z: scale * (z - corner - size / 2) + centre, scale)


def draw_instance(rng: np.random.Generator, animal: Animal, side: int) -> tuple[np.ndarray, np.ndarray, float]:
    """The image (side, side, 3) uint8, the labels (K, 3) as x, y and visibility, and the animal's area in pixels."""
    image, hidden, area = paint_scene(rng, animal, side)
    xy = np.array(animal.keypoints)  # (K,)
    return image, np.column_stack([xy.real, xy.imag, np.where(hidden, OCCLUDED, VISIBLE)]), area


def _check(**given: float) -> None:
    for name, value in given.items():
        if value < LEAST[name]:
            raise InputError(f"synthetic animals: {name} is {value}. Pass a {name} of at least {LEAST[name]}.")


def animals(count: int, seed: int, size: int = 64, margin: float = 1.25) -> Pool:
    """``count`` animals in memory, cropped around slightly imprecise boxes as a dataset's would be."""
    _check(count=count, seed=seed, size=size, margin=margin)
    side = size + 2 * round(size * (margin - 1) / 2)
    length = size / CONTEXT
    crops = np.empty((count, side, side, 3), np.uint8)
    labels = np.empty((count, len(ANIMAL), 3), np.float32)
    area = np.empty(count, np.float32)
    for i in range(count):
        rng = np.random.default_rng((seed, i))
        right, down, smaller = rng.uniform(-BOX_JITTER, BOX_JITTER, 3).tolist()
        centre = (side - 1) / 2 * (1 + 1j) + length * complex(right, down)
        animal = placed(random_animal(rng), length * (1 - smaller), centre)
        crops[i], labels[i], area[i] = draw_instance(rng, animal, side)
    return Pool(
        skeleton=ANIMAL, crops=crops, rows=np.arange(count), ids=tuple(f"animal-{seed}-{i}" for i in range(count)),
        keypoints=labels[:, :, :2].copy(), visibility=labels[:, :, 2].astype(np.uint8),
        length=np.full(count, length, np.float32), area=area,
        to_image=np.tile([1.0, 0.0, 0.0], (count, 1)), image=np.arange(count), view=float(size),
    )  # fmt: skip


def write_animals(folder: Path, count: int, seed: int, size: int = 128) -> Path:
    """Write images/*.jpg and annotations.json in COCO keypoints form. Returns the path of annotations.json."""
    _check(count=count, seed=seed, size=size)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    names = [f"images/{i:06d}.jpg" for i in range(count)]
    annotations = []
    for i in range(count):
        rng = np.random.default_rng((seed, i))
        longest = size * rng.uniform(0.45, 0.8)
        room = (size - 1 - longest) / 2
        centre = (size - 1) / 2 * (1 + 1j) + room * complex(rng.uniform(-1, 1), rng.uniform(-1, 1))
        animal = placed(random_animal(rng), longest, centre)
        (image, labels, area), (corner, extent) = draw_instance(rng, animal, size), animal.box(BOX_PADDING)
        cv2.imwrite(str(folder / names[i]), image[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 95])
        annotations.append({
            "id": i + 1, "image_id": i + 1, "category_id": 1, "iscrowd": 0, "area": area, "num_keypoints": len(ANIMAL),
            "bbox": [round(v, 2) for v in (corner.real, corner.imag, extent.real, extent.imag)],
            "keypoints": [round(v, 2) for v in labels.ravel().tolist()],
        })  # fmt: skip
    category = {
        "id": 1, "name": "animal", "supercategory": "animal", "keypoints": list(KEYPOINTS),
        "skeleton": [[a + 1, b + 1] for a, b in ANIMAL.edges], "flip_pairs": [list(p) for p in ANIMAL.flip_pairs],
    }  # fmt: skip
    images = [{"id": i + 1, "file_name": name, "width": size, "height": size} for i, name in enumerate(names)]
    path = folder / "annotations.json"
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": [category]}))
    return path

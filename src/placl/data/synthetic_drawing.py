"""Paints one synthetic animal into a cluttered scene: background, coat, occluders, light, blur and noise.

Points are complex numbers (x + iy, pixel centres at integers), so that turning and mirroring are one multiplication.
"""

from __future__ import annotations

from cmath import rect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import cos, pi, sin
from statistics import NormalDist
from typing import NamedTuple

import cv2
import numpy as np

Colour = tuple[float, float, float]

FAR, BODY, NEAR = 0, 1, 2  # layers from back to front
SHADES = (0.4, 0.8, 1.25)  # limbs nearer to the viewer are lighter: the cue that tells left from right
OVERSAMPLING = 2  # everything is drawn this much larger and then shrunk, which smooths the edges
FRACTION_BITS = 4  # OpenCV draws at 1/16 pixel
ONE = 1 << FRACTION_BITS
PATTERNS = ("plain", "stripes", "spots", "patches", "halves")
CAMOUFLAGE = 0.3  # the share of clutter in the animal's own colours
MOST_OCCLUDERS = 4
WHITE = (255.0, 255.0, 255.0)
NORMAL = np.array([NormalDist().inv_cdf((i + 0.5) / 256) for i in range(256)], np.float32)  # noise by the byte: fast


class Capsule(NamedTuple):
    """A limb segment: two discs and the trapezium between them."""

    start: complex
    start_radius: float
    end: complex
    end_radius: float


class Mark(NamedTuple):
    """A disc on top of a layer: a "nose", an "eye" or a "paw"."""

    centre: complex
    radius: float
    kind: str


@dataclass(frozen=True)
class Animal:
    """What there is to draw. ``keypoints`` and ``depth`` (the layer a keypoint sits on) follow the skeleton's order."""

    keypoints: tuple[complex, ...]
    depth: tuple[int, ...]
    capsules: tuple[tuple[Capsule, ...], ...]  # per layer
    marks: tuple[tuple[Mark, ...], ...]  # per layer
    heading: complex  # unit vector from tail to neck
    unit: float  # torso length

    def moved(self, move: Callable[[complex], complex], scale: float, order: Sequence[int] | None = None) -> Animal:
        """Every point moved and every radius scaled; ``order`` renames the keypoints, for mirror images."""
        order = range(len(self.keypoints)) if order is None else order
        return Animal(
            keypoints=tuple(move(self.keypoints[k]) for k in order),
            depth=tuple(self.depth[k] for k in order),
            capsules=tuple(tuple(Capsule(move(a), r * scale, move(b), s * scale) for a, r, b, s in layer)
                           for layer in self.capsules),
            marks=tuple(tuple(Mark(move(z), r * scale, kind) for z, r, kind in layer) for layer in self.marks),
            heading=(move(self.heading) - move(0j)) / scale,
            unit=self.unit * scale,
        )  # fmt: skip

    def box(self, padding: float) -> tuple[complex, complex]:
        """Top left corner and size (width + i height) around all keypoints, padded by a share of the longest side."""
        xs, ys = [z.real for z in self.keypoints], [z.imag for z in self.keypoints]
        size = complex(max(xs) - min(xs), max(ys) - min(ys))
        pad = padding * max(size.real, size.imag) * (1 + 1j)
        return complex(min(xs), min(ys)) - pad, size + 2 * pad


def _oversampled(point: complex) -> complex:
    return (point + 0.5 + 0.5j) * OVERSAMPLING - (0.5 + 0.5j)


def draw_disc(canvas: np.ndarray, centre: complex, radius: float, colour: Colour) -> None:
    """A filled disc on an oversampled canvas, given in image pixels."""
    at = _oversampled(centre) * ONE
    size = max(1, round(radius * OVERSAMPLING * ONE))
    cv2.circle(canvas, (round(at.real), round(at.imag)), size, colour, cv2.FILLED, cv2.LINE_8, FRACTION_BITS)


def draw_polygon(canvas: np.ndarray, corners: Sequence[complex], colour: Colour) -> None:
    """A filled convex polygon on an oversampled canvas, given in image pixels."""
    points = [_oversampled(corner) * ONE for corner in corners]
    xy = np.array([(round(z.real), round(z.imag)) for z in points], np.int32)  # (P, 2)
    cv2.fillConvexPoly(canvas, xy, colour, cv2.LINE_8, FRACTION_BITS)


def draw_capsule(canvas: np.ndarray, part: Capsule, colour: Colour) -> None:
    along = part.end - part.start
    across = 1j * along / max(abs(along), 1e-6)
    a, b = across * part.start_radius, across * part.end_radius
    draw_polygon(canvas, (part.start + a, part.end + b, part.end - b, part.start - a), colour)
    draw_disc(canvas, part.start, part.start_radius, colour)
    draw_disc(canvas, part.end, part.end_radius, colour)


def random_colour(rng: np.random.Generator, dark: float = 0, light: float = 255) -> Colour:
    """Any hue, seldom a garish one."""
    grey, saturation = rng.uniform(dark, light), rng.uniform(0.2, 1)
    r, g, b = (grey + saturation * (c - grey) for c in rng.uniform(dark, light, 3).tolist())
    return r, g, b


def random_coat(rng: np.random.Generator, animal: Animal, side: int) -> np.ndarray:
    """(D, D, 3) uint8: a plain, striped, spotted, patched or two-coloured coat that covers the canvas."""
    first, second = random_colour(rng, 50, 235), random_colour(rng, 20, 235)
    coat = np.full((side * OVERSAMPLING, side * OVERSAMPLING, 3), np.array(first, np.uint8))
    middle = sum(animal.keypoints) / len(animal.keypoints)
    along, across, unit = animal.heading, 1j * animal.heading, animal.unit
    pattern = PATTERNS[rng.integers(len(PATTERNS))]
    if pattern == "stripes":
        step, lean = rng.uniform(0.1, 0.3) * unit, across + rng.uniform(-0.6, 0.6) * along
        for i in range(-12, 13):
            at, width = middle + (i + rng.normal(0, 0.15)) * step * along, rng.uniform(0.15, 0.35) * step * along
            ends = at - lean * 2 * unit, at + lean * 2 * unit
            draw_polygon(coat, (ends[0] - width, ends[0] + width, ends[1] + width, ends[1] - width), second)
    elif pattern in ("spots", "patches"):
        count, largest = (45, 0.09) if pattern == "spots" else (9, 0.35)
        for x, y, r in rng.uniform((-1.6, -1.6, 0.3), (1.6, 1.6, 1), (count, 3)).tolist():
            draw_disc(coat, middle + complex(x, y) * unit, r * largest * unit, second)
    elif pattern == "halves":
        edge, out = middle + rng.normal(0, 0.3) * unit * along, 3 * side * across
        end = edge + 3 * side * along * (1 if rng.random() < 0.5 else -1)
        draw_polygon(coat, (edge + out, edge - out, end - out, end + out), second)
    return coat


def paint_animal(
    canvas: np.ndarray, animal: Animal, coat: np.ndarray, marks: dict[str, Colour], outline: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the layers back to front. Returns the silhouette (D, D) and which keypoints a later layer hides (K,)."""
    hidden = np.zeros(len(animal.keypoints), bool)
    silhouette = np.zeros(canvas.shape[:2], np.uint8)
    for layer, shade in enumerate(SHADES):
        mask = np.zeros(canvas.shape[:2], np.uint8)
        for part in animal.capsules[layer]:
            draw_capsule(mask, part, WHITE)
        for mark in animal.marks[layer]:
            draw_disc(mask, mark.centre, mark.radius, WHITE)
        if outline:
            rim = cv2.dilate(mask, np.ones((3, 3), np.uint8))
            cv2.copyTo(cv2.convertScaleAbs(coat, alpha=0.45 * shade), rim, canvas)
        cv2.copyTo(cv2.convertScaleAbs(coat, alpha=shade), mask, canvas)
        for mark in animal.marks[layer]:
            if mark.kind in marks:
                r, g, b = marks[mark.kind]
                draw_disc(canvas, mark.centre, mark.radius, (r * shade, g * shade, b * shade))
        hidden |= covered(mask, animal) & (np.array(animal.depth) < layer)
        silhouette |= mask
    return silhouette, hidden


def covered(mask: np.ndarray, animal: Animal) -> np.ndarray:
    """(K,) bool: which keypoints lie under an oversampled mask (D, D)."""
    points = [_oversampled(z) for z in animal.keypoints]
    return np.array([mask[round(z.imag), round(z.real)] > 0 for z in points])


def random_polygon(rng: np.random.Generator, centre: complex, radius: float, corners: int) -> list[complex]:
    """The corners of a convex polygon: points on a random ellipse, in order."""
    tilt, flat = rect(radius, rng.uniform(0, pi)), rng.uniform(0.4, 1)
    angles = sorted(rng.uniform(0, 2 * pi, corners).tolist())
    return [centre + tilt * complex(cos(a), flat * sin(a)) for a in angles]


def paint_background(rng: np.random.Generator, side: int, coat: np.ndarray) -> np.ndarray:
    """(D, D, 3) uint8: blotches, polygons, balls and sticks that could be limbs, some of them in the coat's colours."""
    drawn = side * OVERSAMPLING
    cells = (2, 3, 6, 16)[rng.integers(4)]
    base = np.array(random_colour(rng)) + rng.uniform(-1, 1, (cells, cells, 3)) * rng.uniform(15, 90)
    canvas = cv2.resize(np.clip(base, 0, 255).astype(np.uint8), (drawn, drawn), interpolation=cv2.INTER_LINEAR)

    def colour() -> Colour:
        if rng.random() > CAMOUFLAGE:
            return random_colour(rng)
        x, y = rng.integers(0, drawn, 2).tolist()
        r, g, b = (coat[y, x] * rng.uniform(0.5, 1.1)).tolist()
        return r, g, b

    def place() -> complex:
        return complex(rng.uniform(0, side), rng.uniform(0, side))

    for _ in range(rng.integers(0, 9)):
        corners = random_polygon(rng, place(), rng.uniform(0.08, 0.4) * side, int(rng.integers(3, 9)))
        draw_polygon(canvas, corners, colour())
    for _ in range(rng.integers(0, 6)):
        draw_disc(canvas, place(), rng.uniform(0.015, 0.1) * side, colour())
    for _ in range(rng.integers(0, 10)):
        start, width, tint = place(), rng.uniform(0.01, 0.04) * side, colour()
        end = start + rect(rng.uniform(0.1, 0.45) * side, rng.uniform(0, 2 * pi))
        draw_capsule(canvas, Capsule(start, width, end, width * rng.uniform(0.4, 1)), tint)
        if rng.random() < 0.4:
            draw_disc(canvas, end, width * rng.uniform(1, 1.8), tint)
    return canvas


def paint_occluders(rng: np.random.Generator, canvas: np.ndarray, animal: Animal) -> np.ndarray:
    """Cover parts of the animal with polygons, the many-cornered ones nearly round. Returns their mask (D, D)."""
    mask = np.zeros(canvas.shape[:2], np.uint8)
    for _ in range(rng.integers(0, MOST_OCCLUDERS + 1)):
        near = animal.keypoints[rng.integers(len(animal.keypoints))]
        centre = near + 0.12 * animal.unit * complex(rng.normal(), rng.normal())
        corners = random_polygon(rng, centre, rng.uniform(0.1, 0.35) * animal.unit, int(rng.integers(3, 16)))
        draw_polygon(canvas, corners, random_colour(rng))
        draw_polygon(mask, corners, WHITE)
    return mask


def photograph(rng: np.random.Generator, canvas: np.ndarray) -> np.ndarray:
    """(S, S, 3) uint8: the canvas shrunk to its size, under uneven light, blurred and with sensor noise."""
    side = canvas.shape[0] // OVERSAMPLING
    image = cv2.resize(canvas, (side, side), interpolation=cv2.INTER_AREA)
    if rng.random() < 0.5:
        image = cv2.GaussianBlur(image, (0, 0), rng.uniform(0.3, 0.8) * (side / 80) ** 0.5)
    light = cv2.resize(rng.uniform(0.65, 1.2, (2, 2)).astype(np.float32), (side, side))
    noise = (NORMAL * np.float32(rng.uniform(0, 14)))[rng.integers(0, 256, image.shape, np.uint8)]
    return np.asarray(np.clip(image * light[:, :, None] + noise, 0, 255).astype(np.uint8))


def paint_scene(rng: np.random.Generator, animal: Animal, side: int) -> tuple[np.ndarray, np.ndarray, float]:
    """The image (side, side, 3) uint8, which keypoints are hidden (K,) bool, and the animal's area in pixels."""
    coat = random_coat(rng, animal, side)
    canvas = paint_background(rng, side, coat)
    marks: dict[str, Colour] = {"nose": random_colour(rng, 0, 90), "eye": (10, 10, 10)}
    if rng.random() < 0.4:
        marks["paw"] = random_colour(rng, 40, 235)
    silhouette, hidden = paint_animal(canvas, animal, coat, marks, outline=rng.random() < 0.6)
    hidden |= covered(paint_occluders(rng, canvas, animal), animal)
    return photograph(rng, canvas), hidden, cv2.countNonZero(silhouette) / OVERSAMPLING**2

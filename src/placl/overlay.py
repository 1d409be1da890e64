"""Pictures of predictions: keypoints and skeleton on the image, or many images on one contact sheet.

Left is orange, right is blue, the middle is white; without pairs each keypoint has its own colour.
Confident keypoints are filled, weak ones hollow.
"""

from __future__ import annotations

import colorsys
import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from placl.data.images import UnreadableImageError, decode
from placl.data.skeleton import Skeleton
from placl.errors import InputError
from placl.files import write_atomic

if TYPE_CHECKING:  # drawing needs no network: whoever only looks at data does not wait for torch
    from placl.outputs.predictions import Predictions

Colour = tuple[int, int, int]  # RGB

LEFT, RIGHT, MIDDLE = (255, 149, 38), (74, 163, 255), (245, 245, 245)
BOX, INK, PAPER, FAINT = (150, 150, 150), (230, 230, 230), (24, 26, 30), (150, 155, 165)
WEAK = 0.3  # confidence below which a keypoint is drawn hollow
PICTURE = 720  # longest side of a single picture, at least
TILE = 232  # side of an image on a contact sheet
GAP, CAPTION, FOOTER, LEGEND_LINE = 12, 22, 30, 19
MOST_TILES = 24
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
SUBPIXEL = 4  # bits of a pixel's fraction that OpenCV draws with
SIDES: tuple[tuple[Colour, str], ...] = ((LEFT, "left"), (RIGHT, "right"), (MIDDLE, "middle"))


def keypoint_colours(skeleton: Skeleton) -> list[Colour]:
    """By side. The names tell which of a pair is left; if they do not, it is the first."""
    colours: list[Colour] = [MIDDLE] * len(skeleton)
    for a, b in skeleton.flip_pairs:
        name = skeleton.keypoints[b].lower()
        left, right = (b, a) if "left" in name or name.startswith(("l_", "l-")) else (a, b)
        colours[left], colours[right] = LEFT, RIGHT
    return colours


def dot_colours(skeleton: Skeleton) -> list[Colour]:
    """By side; without pairs there are no sides to tell, and the circle of hues is shared out."""
    if skeleton.flip_pairs:
        return keypoint_colours(skeleton)
    return [hue(k / len(skeleton)) for k in range(len(skeleton))]


def hue(turn: float) -> Colour:
    red, green, blue = (round(255 * part) for part in colorsys.hls_to_rgb(turn % 1, 0.60, 1.0))
    return red, green, blue


def draw(
    image: np.ndarray,  # (H, W, 3) uint8 RGB
    keypoints: np.ndarray,  # (N, K, 2) image pixels
    confidence: np.ndarray,  # (N, K)
    skeleton: Skeleton,
    *,
    boxes: np.ndarray | None = None,  # (N, 4) xywh
    zoom: float = 1.0,
    threshold: float = 0.0,
    colours: Sequence[Colour] | None = None,
    weight: float = 1.0,
) -> np.ndarray:
    """The image, enlarged by ``zoom``, with its instances on it. Keypoints below the threshold are left out.

    Edges have the colours of the sides, dots those of :func:`dot_colours` unless ``colours`` gives others. Lines and
    dots are ``weight`` times as strong as usual.
    """
    height, width = (max(1, round(side * zoom)) for side in image.shape[:2])
    method = cv2.INTER_AREA if zoom < 1 else cv2.INTER_CUBIC
    canvas = np.ascontiguousarray(cv2.resize(image, (width, height), interpolation=method))
    unit = weight * max(1.0, max(width, height) / 240)  # lines and dots grow with the picture
    sides = keypoint_colours(skeleton)
    colours = dot_colours(skeleton) if colours is None else colours
    for number in range(len(keypoints)):
        if boxes is not None and not _fills(boxes[number], image):
            x, y, w, h = boxes[number] * zoom
            corners = _fixed(np.array([[x - 0.5, y - 0.5], [x + w - 0.5, y + h - 0.5]]))
            cv2.rectangle(canvas, corners[0], corners[1], BOX, max(1, round(unit / 2)), cv2.LINE_AA, SUBPIXEL)
        places = _fixed((keypoints[number] + 0.5) * zoom - 0.5)
        shown = confidence[number] >= threshold
        for a, b in skeleton.edges:
            if shown[a] and shown[b]:
                colour = next((c for c in (sides[a], sides[b]) if c != MIDDLE), MIDDLE)
                cv2.line(canvas, places[a], places[b], colour, max(1, round(unit)), cv2.LINE_AA, SUBPIXEL)
        for k in np.flatnonzero(shown).tolist():
            _dot(canvas, places[k], colours[k], max(3.0, 2.4 * unit), filled=bool(confidence[number, k] >= WEAK))
    return canvas


def _dot(canvas: np.ndarray, place: tuple[int, int], colour: Colour, radius: float, *, filled: bool) -> None:
    size, ring = round(radius * 2**SUBPIXEL), max(1, round(radius / 2.5))
    cv2.circle(canvas, place, size, colour if filled else PAPER, -1, cv2.LINE_AA, SUBPIXEL)
    if not filled or radius >= 5:  # a dark rim on a small dot would be all there is to see
        cv2.circle(canvas, place, size, PAPER if filled else colour, 1 if filled else ring, cv2.LINE_AA, SUBPIXEL)


def _fixed(points: np.ndarray) -> list[tuple[int, int]]:
    """OpenCV's fixed-point coordinates. What lies absurdly far outside is brought near, where it overflows nothing."""
    whole = np.rint(np.clip(points, -1e5, 1e5) * 2**SUBPIXEL).astype(int)
    return [(int(x), int(y)) for x, y in whole]


def _fills(box: np.ndarray, image: np.ndarray) -> bool:
    """The box is the image: nothing worth drawing."""
    return bool(np.allclose(box, [0, 0, image.shape[1], image.shape[0]], atol=1))


def picture(found: Predictions, rows: Sequence[int], skeleton: Skeleton, side: int, threshold: float) -> np.ndarray:
    """One image with the given instances, its longest side ``side`` pixels; grey if it cannot be read any more."""
    try:
        image = decode(found.files[rows[0]])
    except UnreadableImageError:
        return np.full((side, side, 3), 60, np.uint8)
    index = np.array(rows)
    zoom = side / max(image.shape[:2])
    return draw(
        image,
        found.keypoints[index],
        found.confidence[index],
        skeleton,
        boxes=found.boxes[index],
        zoom=zoom,
        threshold=threshold,
    )


def contact_sheet(
    tiles: Sequence[np.ndarray],
    captions: Sequence[str],
    footer: str = "",
    *,
    side: int = TILE,
    legend: Sequence[tuple[Colour, str]] = SIDES,
    hollow: str = f"confidence < {WEAK:g}",
) -> np.ndarray:
    """Tiles in a grid that is a little wider than high, each with a line of text below it, and a legend."""
    columns = max(1, min(len(tiles), math.ceil(math.sqrt(1.5 * len(tiles)))))
    rows = math.ceil(len(tiles) / columns)
    step, pitch = side + GAP, side + CAPTION + GAP
    width = columns * step + GAP
    words = _legend(legend, [text for text in (hollow and f"hollow: {hollow}", footer) if text], width)
    extra = LEGEND_LINE * max((line for _, line, _, _ in words), default=0)  # for the lines after the first
    sheet = Image.new("RGB", (width, rows * pitch + GAP + FOOTER + extra), PAPER)
    pen = ImageDraw.Draw(sheet)
    for number, (tile, caption) in enumerate(zip(tiles, captions, strict=True)):
        left, top = GAP + number % columns * step, GAP + number // columns * pitch
        height, breadth = tile.shape[:2]
        sheet.paste(Image.fromarray(tile), (left + (side - breadth) // 2, top + (side - height) // 2))
        pen.text((left, top + side + 4), _shortened(pen, caption, side), fill=INK, font=font(13))
    for x, line, colour, text in words:
        y = rows * pitch + GAP + 6 + LEGEND_LINE * line
        if colour is not None:
            pen.ellipse((x, y + 3, x + 9, y + 12), fill=colour)
        pen.text((x + (14 if colour else 4), y), text, fill=FAINT, font=font(12))
    return np.asarray(sheet)


def _legend(
    dots: Sequence[tuple[Colour, str]], texts: Sequence[str], width: float
) -> list[tuple[float, int, Colour | None, str]]:
    """Dots with names, then texts: x, number of the line, colour and words of each, wrapped to the width."""
    placed: list[tuple[float, int, Colour | None, str]] = []
    x, line = float(GAP), 0
    for colour, text in (*dots, *((None, text) for text in texts)):
        needs = 24 + font(12).getlength(text)
        if x > GAP and x + needs - 10 > width - GAP:
            x, line = float(GAP), line + 1
        placed.append((x, line, colour, text))
        x += needs
    return placed


def _shortened(pen: ImageDraw.ImageDraw, text: str, width: float) -> str:
    """The end of a long text: that is where file names differ."""
    if pen.textlength(text, font=font(13)) <= width:
        return text
    cuts = range(len(text))
    first = bisect_left(cuts, True, key=lambda cut: pen.textlength("..." + text[cut:], font=font(13)) <= width)
    return "..." + text[first:]


@cache
def font(size: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    return ImageFont.load_default(size)


def save_overlay(found: Predictions, skeleton: Skeleton, path: Path, threshold: float = 0.0) -> list[Path]:
    """Write a picture (a contact sheet if there are several images), or one per image if ``path`` is a folder."""
    by_image: dict[Path, list[int]] = {}
    for row, file in enumerate(found.files):
        by_image.setdefault(file, []).append(row)
    groups = list(by_image.values())
    if path.suffix.lower() not in SUFFIXES:
        return _save_each(found, groups, skeleton, path, threshold)
    if len(groups) == 1:
        content = picture(found, groups[0], skeleton, PICTURE, threshold)
    else:
        # Spread over all of them: the first images of a folder are often alike.
        chosen = np.unique(np.linspace(0, len(groups) - 1, min(len(groups), MOST_TILES)).round().astype(int))
        shown = [groups[i] for i in chosen]
        tiles = [picture(found, rows, skeleton, TILE, threshold) for rows in shown]
        captions = [f"{found.names[rows[0]]}  {100 * found.scores[rows].mean():.0f} %" for rows in shown]
        footer = f"{len(shown)} of {len(groups)} images" if len(shown) < len(groups) else ""
        names = tuple(zip(dot_colours(skeleton), skeleton.keypoints, strict=True))
        content = contact_sheet(tiles, captions, footer, legend=SIDES if skeleton.flip_pairs else names)
    write_picture(path, content)
    return [path]


def _save_each(
    found: Predictions, groups: list[list[int]], skeleton: Skeleton, folder: Path, threshold: float
) -> list[Path]:
    written: dict[Path, None] = {}
    for rows in groups:
        name = Path(found.names[rows[0]]).with_suffix("").as_posix().strip("./").replace("/", "_")
        file, number = folder / f"{name}.png", 2
        while file in written:  # a.jpg and a.png
            file, number = folder / f"{name}_{number}.png", number + 1
        write_picture(file, picture(found, rows, skeleton, PICTURE, threshold))
        written[file] = None
    return list(written)


def write_picture(path: Path, image: np.ndarray) -> None:
    ok, content = cv2.imencode(path.suffix.lower(), cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
    if not ok:
        raise InputError(f"{path}: the picture cannot be written in that format. Use .png.")
    write_atomic(path, content.tobytes())

"""The page of a preview: one self-contained file. Keypoints are SVG, so that each can be pointed at for its name.

Nothing is loaded from anywhere, there is no script, and everything that comes from the data is escaped.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import cv2
import numpy as np

from placl.data.pool import OCCLUDED, UNLABELLED
from placl.data.skeleton import Skeleton
from placl.overlay import MIDDLE, Colour

QUALITY = 85  # of the JPEGs
STYLE = """
:root{color-scheme:light dark;--ink:#1c2330;--soft:#667085;--line:#d5dae3;--page:#f6f7f9;--card:#fff}
@media(prefers-color-scheme:dark){:root{--ink:#e7eaf0;--soft:#98a2b3;--line:#2c333f;--page:#101318;--card:#191d24}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:96rem;margin:0 auto;padding:1.5rem}
h1{font-size:1.3rem;margin:0}p{color:var(--soft);margin:.1rem 0 .9rem}
header{margin-bottom:1rem}
.legend{display:flex;flex-wrap:wrap;gap:.15rem .9rem;font-size:.85rem;color:var(--soft);list-style:none;padding:0;margin:.6rem 0}
.legend i,.ring{display:inline-block;width:.7em;height:.7em;border-radius:50%;margin-right:.4em;border:1px solid #0006}
.ring{border:.2em solid var(--soft)}
label{margin-right:1rem;cursor:pointer;user-select:none;font-size:.9rem}
.cards{display:grid;gap:1rem;grid-template-columns:repeat(auto-fill,minmax(15rem,1fr))}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:.7rem;overflow:hidden}
svg,.gone{display:block;width:100%;aspect-ratio:1;background:#000}
.gone{display:grid;place-items:center;text-align:center;padding:1rem;background:#484c54;color:#cdd0d6}
figcaption{padding:.5rem .75rem .6rem;font-size:.85rem}
figcaption b{display:block;font-weight:600;overflow-wrap:anywhere}figcaption span{color:var(--soft);overflow-wrap:anywhere}
.tag{display:inline-block;border:1px solid var(--line);border-radius:1rem;padding:0 .55em;margin:.3em .3em 0 0}
line{stroke-width:2.5;stroke-linecap:round;opacity:.85}
circle{stroke:#000;stroke-opacity:.65;stroke-width:1;transition:r .1s}circle:hover{r:10px;stroke:#fff;stroke-opacity:1}
.occluded{fill:#0008;stroke-width:2.5;stroke-opacity:1}
rect{fill:none;stroke:#fff;stroke-opacity:.55;stroke-dasharray:4 4}
body:has(#dots:not(:checked)) circle,body:has(#edges:not(:checked)) line,body:has(#boxes:not(:checked)) rect{display:none}
"""  # noqa: E501 - a style sheet
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True)
class Card:
    """One instance, in the pixels of its crop."""

    name: str  # of the file
    identity: str
    kind: str  # its class; "" unknown
    split: str  # "" unknown
    crop: np.ndarray | None  # (S, S, 3) uint8 RGB; None: unreadable
    reason: str
    keypoints: np.ndarray  # (K, 2)
    visibility: np.ndarray  # (K,)
    box: np.ndarray | None  # (4,) xywh


def page(
    summary: str,
    cards: Sequence[Card],
    skeleton: Skeleton | None,
    colours: Sequence[Colour],  # (K,) of the dots
    sides: Sequence[Colour],  # (K,) by which edges are coloured
) -> str:
    names = skeleton.keypoints if skeleton is not None else ()
    legend = "".join(
        f'<li><i style="background:{_css(colour)}"></i>{escape(name)}</li>'
        for name, colour in zip(names, colours, strict=False)
    )
    if names:
        legend += '<li><span class="ring"></span>occluded</li>'
    hint = "Point at a keypoint to see its name." if names else "Nothing says yet what is to be localized."
    switches = "".join(
        f'<label><input type="checkbox" id="{name}" checked> {text}</label>'
        for name, text in (("dots", "keypoints"), ("edges", "edges"), ("boxes", "boxes"))
    )
    figures = "".join(_figure(card, skeleton, colours, sides) for card in cards)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>preview · placl</title><style>{STYLE}</style></head><body>"
        f"<header><h1>{escape(summary)}</h1><p>{hint}</p>{switches}"
        f'<ul class="legend">{legend}</ul></header><div class="cards">{figures}</div></body></html>\n'
    )


def _figure(card: Card, skeleton: Skeleton | None, colours: Sequence[Colour], sides: Sequence[Colour]) -> str:
    labelled = int((card.visibility > UNLABELLED).sum())
    state = f"{labelled} of {len(card.visibility)} keypoints" if labelled else "unlabelled"
    tags = "".join(f'<span class="tag">{escape(tag)}</span>' for tag in (card.kind, card.split, state) if tag)
    identity = "" if card.identity == card.name else f"<span>{escape(card.identity)}</span><br>"
    return (
        f"<figure>{_picture(card, skeleton, colours, sides)}"
        f"<figcaption><b>{escape(card.name)}</b>{identity}{tags}</figcaption></figure>"
    )


def _picture(card: Card, skeleton: Skeleton | None, colours: Sequence[Colour], sides: Sequence[Colour]) -> str:
    if card.crop is None:
        return f'<div class="gone">{escape(card.reason)}</div>'
    size = len(card.crop)
    parts = [f'<image width="{size}" height="{size}" href="{_data_url(card.crop)}"/>']
    if card.box is not None:
        x, y, width, height = card.box
        parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>')
    if skeleton is not None:
        places = card.keypoints + 0.5  # SVG counts from the edge of the first pixel
        known = card.visibility > UNLABELLED
        for a, b in skeleton.edges:
            if known[a] and known[b]:
                side = next((colour for colour in (sides[a], sides[b]) if colour != MIDDLE), MIDDLE)
                (x, y), (u, v) = places[a], places[b]
                parts.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{u:.1f}" y2="{v:.1f}" stroke="{_css(side)}"/>')
        for k in np.flatnonzero(known).tolist():
            parts.append(_dot(places[k], skeleton.keypoints[k], colours[k], bool(card.visibility[k] == OCCLUDED)))
    return f'<svg viewBox="0 0 {size} {size}" role="img" aria-label="{escape(card.name)}">{"".join(parts)}</svg>'


def _dot(place: np.ndarray, name: str, colour: Colour, occluded: bool) -> str:
    paint = f'class="occluded" style="stroke:{_css(colour)}"' if occluded else f'fill="{_css(colour)}"'
    title = escape(f"{name} (occluded)" if occluded else name)
    return f'<circle cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="5" {paint}><title>{title}</title></circle>'


def _css(colour: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _data_url(image: np.ndarray) -> str:
    parameters = [cv2.IMWRITE_JPEG_QUALITY, QUALITY]
    content = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), parameters)[1].tobytes()
    return f"data:image/jpeg;base64,{base64.b64encode(content).decode()}"

"""``report.html``: one self-contained file that opens offline, written anew whenever a stage is finished.

Charts are drawn as SVG here, so that the page needs no script and nothing from the network. Everything that comes
from outside is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

STYLE = """
:root{color-scheme:light dark;--ink:#1c2330;--soft:#667085;--line:#d5dae3;--page:#fff;--a:#2f6fed;--b:#e2703a}
@media(prefers-color-scheme:dark){:root{--ink:#e7eaf0;--soft:#98a2b3;--line:#39414f;--page:#14181f;--a:#78a5ff;--b:#ff9d6b}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:56rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.1rem;margin-top:2rem}p{color:var(--soft);margin:.2rem 0 1rem}
table{border-collapse:collapse;width:100%}td,th{padding:.35rem .6rem;border-bottom:1px solid var(--line);text-align:right}
td:first-child,th:first-child{text-align:left}svg{width:100%;height:auto}svg text{fill:var(--soft);font-size:12px}
figure{margin:1rem 0}figcaption span{margin-left:.5rem;font-weight:600}
.axis{stroke:var(--line)}.line{fill:none;stroke-width:2.5}.charts{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(18rem,1fr))}
"""  # noqa: E501 - a style sheet

WIDTH, HEIGHT, LEFT, BOTTOM = 420, 220, 44, 28


Line = Sequence[float | None]  # None or nan where a stage has no such number


def finite(lines: Mapping[str, Line]) -> list[float]:
    return [value for line in lines.values() for value in line if value is not None and math.isfinite(value)]


def chart(
    title: str, lines: Mapping[str, Line], ticks: Sequence[str], low: float | None = None, high: float | None = None
) -> str:
    """Lines over evenly spaced ticks, the newest the strongest; y as the values have it, or from low to high.

    Values that are missing are passed over, lines without any are left out, and so is a chart without lines.
    """
    lines = {name: line for name, line in lines.items() if finite({name: line})}
    if not lines:
        return ""
    values = finite(lines)
    low, high = min(values) if low is None else low, max(values) if high is None else high
    span = high - low or 1.0
    step = (WIDTH - LEFT - 12) / max(1, len(ticks) - 1)

    def place(i: int, value: float) -> tuple[float, float]:
        return LEFT + i * step, (HEIGHT - BOTTOM) - (value - low) / span * (HEIGHT - BOTTOM - 14)

    parts = [f'<line class="axis" x1="{LEFT}" y1="{HEIGHT - BOTTOM}" x2="{WIDTH}" y2="{HEIGHT - BOTTOM}"/>']
    for share in (0.0, 0.5, 1.0):
        y = place(0, low + share * span)[1]
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{low + share * span:.4g}</text>')
    for i, tick in enumerate(ticks):
        x = place(i, low)[0]
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(tick)}</text>')
    legend = []
    for number, (name, line) in enumerate(lines.items()):
        colour = "var(--a)" if number == len(lines) - 1 else "var(--b)"
        strength = f"opacity:{0.35 + 0.65 * (number + 1) / len(lines):.2f}"
        points = [place(i, v) for i, v in enumerate(line) if v is not None and math.isfinite(v)]
        parts.append(_drawn(points, name, f"{colour};{strength}"))
        legend.append(f'<span style="color:{colour};{strength}">{escape(name)}</span>')
    label = escape(f"{title}: {', '.join(lines)}")
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
        f"<figcaption>{escape(title)}: {' '.join(legend)}</figcaption></figure>"
    )


def _drawn(points: list[tuple[float, float]], name: str, style: str) -> str:
    """A line; a point where there is one only."""
    title = f"<title>{escape(name)}</title>"
    if len(points) == 1:
        (x, y) = points[0]
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" style="fill:{style}">{title}</circle>'
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="line" points="{path}" style="stroke:{style}">{title}</polyline>'


def _table(rows: list[dict[str, Any]], columns: dict[str, str]) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title in columns.values())
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_cell(row.get(key)))}</td>" for key in columns) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _numbers(lines: Mapping[str, Line]) -> list[str]:
    return [str(i + 1) for i in range(max((len(line) for line in lines.values()), default=0))]


def page(
    name: str,
    summary: str,
    rows: list[dict[str, Any]],
    curricula: Mapping[str, Sequence[float]],
    rewards: Mapping[str, Sequence[float]],
) -> str:
    """The whole page: stages, accuracy over rounds, curricula over epoch groups, mean reward over search steps."""
    columns = {
        "stage": "stage",
        "val": "val",
        "test": "test",
        "labels": "labels used",
        "selected": "pseudo-labels used",
        "seconds": "training, s",
    }
    charts = []
    rounds = [row for row in rows if row["stage"] not in ("few", "full")]
    if len(rounds) > 1:
        scores = {key: [row.get(key) for row in rounds] for key in ("test", "val")}
        ticks = [str(row["stage"]).removeprefix("round_") for row in rounds]
        charts.append(chart(f"{rows[0]['metric']} over rounds", scores, ticks))
    charts.append(chart("thresholds over epoch groups", curricula, _numbers(curricula), 0.0, 1.0))
    charts.append(chart("mean reward over search steps", rewards, _numbers(rewards)))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(name)} · placl</title><style>{STYLE}</style></head><body>"
        f"<h1>{escape(name)}</h1><p>{escape(summary)}</p>{_table(rows, columns)}"
        f'<div class="charts">{"".join(charts)}</div></body></html>\n'
    )

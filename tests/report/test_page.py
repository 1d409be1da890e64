"""The report page: what it says, and that nothing from outside gets in as markup."""

from __future__ import annotations

from html.parser import HTMLParser

from placl.report.page import chart, page

ROWS = [
    {
        "stage": "round_0",
        "metric": "PCK@0.1",
        "val": 61.5,
        "test": 60.0,
        "labels": 100,
        "selected": None,
        "seconds": 9.0,
    },
    {
        "stage": "round_1",
        "metric": "PCK@0.1",
        "val": 66.0,
        "test": 65.0,
        "labels": 100,
        "selected": 0.8,
        "seconds": 9.5,
    },
    {"stage": "full", "metric": "PCK@0.1", "val": 72.0, "test": 70.0, "labels": 2000, "selected": None, "seconds": 9.2},
]


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)


def test_every_stage_has_a_row_with_its_scores() -> None:
    html = page("birds", "100 labelled", ROWS, {}, {})
    assert "<td>round_1</td><td>66.00</td><td>65.00</td><td>100</td><td>0.80</td><td>9.50</td>" in html
    assert Tags(html).names.count("tr") == 1 + len(ROWS)


def test_the_yardstick_is_not_a_round() -> None:
    html = page("birds", "", ROWS, {}, {})
    assert html.count("<polyline") == 2  # test and val over two rounds
    assert 'text-anchor="middle">full<' not in html


def test_curricula_and_rewards_are_drawn() -> None:
    html = page("birds", "", ROWS, {"round_1": [0.2, 0.4], "round_2": [0.1, 0.3]}, {"round_1": [50.0, 52.0]})
    assert html.count("<polyline") == 2 + 2 + 1


def test_a_chart_puts_the_extremes_at_its_edges() -> None:
    assert 'points="44.0,192.0 408.0,14.0"' in chart("t", {"a": [0.0, 1.0]}, ["1", "2"], 0.0, 1.0)
    assert 'points="44.0,192.0 408.0,14.0"' in chart("t", {"a": [40.0, 60.0]}, ["1", "2"])


def test_a_legend_has_each_name_in_the_colour_of_its_line() -> None:
    drawing = chart("t", {"round_1": [0.2, 0.4], "round_2": [0.1, 0.3]}, ["1", "2"])
    for name, style in (("round_1", "var(--b);opacity:0.68"), ("round_2", "var(--a);opacity:1.00")):
        assert f'<span style="color:{style}">{name}</span>' in drawing
        assert f'style="stroke:{style}"><title>{name}</title>' in drawing


def test_scores_that_are_missing_are_passed_over() -> None:
    nan = float("nan")
    drawing = chart("t", {"test": [None, nan, None], "val": [1.0, None, 2.0]}, ["0", "1", "2"])
    assert drawing.count("<polyline") == 1
    assert 'points="44.0,192.0 408.0,14.0"' in drawing
    assert "test" not in drawing
    assert '<circle cx="226.0"' in chart("t", {"val": [None, 3.0, nan]}, ["0", "1", "2"])
    html = page("birds", "", [{**row, "val": None, "test": nan} for row in ROWS], {}, {"round_1": [nan]})
    assert "<figure>" not in html
    assert "nan" not in html
    assert "<td>round_1</td><td>-</td><td>-</td>" in html


def test_names_are_text_and_the_page_loads_nothing() -> None:
    attack = '"><script>alert(1)</script>'
    html = page(attack, attack, [{**ROWS[0], "stage": attack}, ROWS[1]], {attack: [0.5]}, {attack: [1.0, 2.0]})
    assert not {"script", "link", "img", "iframe"} & set(Tags(html).names)
    assert "default-src 'none'" in html
    assert "http://" not in html.replace("http-equiv", "")

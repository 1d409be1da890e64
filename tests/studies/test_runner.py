"""Running a study: what is missing is run, interruption changes nothing, failures do not stop the others."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from placl import studies
from placl.errors import InputError
from placl.learn import training
from placl.studies import results, runner
from placl.studies.study import scale_settings


def table(out: Path) -> list[dict[str, str]]:
    """results.csv but for what the clock says."""
    with open(out / "results.csv", newline="") as file:
        return [{key: value for key, value in row.items() if key != "seconds"} for row in csv.DictReader(file)]


def go(study_file: Path, animals_file: Path, out: Path, small: dict[str, Any], **more: Any) -> studies.StudyResult:
    return studies.study(str(study_file), {"animals": animals_file}, out, overrides=small, **more)


def test_a_study_leaves_a_csv_and_tables(
    study_file: Path, animals_file: Path, small: dict[str, Any], tmp_path: Path
) -> None:
    result = go(study_file, animals_file, tmp_path / "out", small, workers=1)
    assert result.failed == {}
    rows = table(tmp_path / "out")
    assert tuple(rows[0]) == tuple(name for name in results.COLUMNS if name != "seconds")
    assert [(row["method"], row["fraction"], row["seed"]) for row in rows][::2] == [
        ("supervised", "0.3", "0"), ("supervised", "1.0", "0"), ("pl", "0.3", "0"),
        ("fixed-0.3", "0.3", "0"), ("mine", "0.3", "0"),
    ]  # fmt: skip
    # a training of 2 x 2 steps of 8; pl and fixed train two; `mine` one and five candidates, one of them the round's
    assert [(row["trainings"], row["images"]) for row in rows][::2] == [
        ("1", "32"), ("1", "32"), ("2", "64"), ("2", "64"), ("6", "192"),
    ]  # fmt: skip
    assert all(0 <= float(row["test"]) <= 100 for row in rows)
    page = (tmp_path / "out" / "table.md").read_text()
    assert "| My own |" in page
    assert "Every row ends with a training of the same budget (4 steps of 8 images, tiny at 32 px)" in page
    assert "Scores are PCK@0.1" in page
    assert "<td>My own</td>" in (tmp_path / "out" / "table.html").read_text()


def test_interrupted_and_continued_it_gives_the_same_csv(
    study_file: Path, animals_file: Path, small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(study_file, animals_file, tmp_path / "whole", small, workers=1)
    inner_loop, left = training.inner_loop_distributed, iter([None] * 3)

    def fails(*arguments: Any, **more: Any) -> Any:
        try:
            next(left)
        except StopIteration:
            raise KeyboardInterrupt from None
        return inner_loop(*arguments, **more)

    monkeypatch.setattr(training, "inner_loop_distributed", fails)
    with pytest.raises(KeyboardInterrupt):
        go(study_file, animals_file, tmp_path / "parts", small, workers=1)
    monkeypatch.setattr(training, "inner_loop_distributed", inner_loop)
    assert len(table(tmp_path / "parts")) == 3
    go(study_file, animals_file, tmp_path / "parts", small, workers=1)
    assert table(tmp_path / "parts") == table(tmp_path / "whole")


def test_side_by_side_it_gives_the_same_csv(
    study_file: Path, animals_file: Path, small: dict[str, Any], tmp_path: Path
) -> None:
    narrow = {"rows": ["supervised", "pl"]}
    go(study_file, animals_file, tmp_path / "one", small, workers=1, **narrow)
    go(study_file, animals_file, tmp_path / "two", small, workers=2, **narrow)
    assert table(tmp_path / "one") == table(tmp_path / "two")


def test_what_is_finished_is_not_run_again(
    study_file: Path, animals_file: Path, small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(study_file, animals_file, tmp_path / "out", small, workers=1, rows=["supervised"], seeds=[0])
    monkeypatch.setattr(runner, "carry_out", lambda *_: pytest.fail("it was run"))
    again = go(study_file, animals_file, tmp_path / "out", small, workers=1, rows=["supervised"], seeds=[0])
    assert len(again.rows) == 2


def test_what_another_machine_finished_is_not_run_again(
    study_file: Path, animals_file: Path, small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = {"rows": ["supervised", "mine"], "fractions": [0.3], "workers": 1}
    first = {**narrow, "rows": ["supervised"]}
    whole = go(study_file, animals_file, tmp_path / "whole", small, **narrow)
    there = go(study_file, animals_file, tmp_path / "there", small, **first)
    known = tmp_path / "there" / "results.csv"
    with monkeypatch.context() as patch:
        patch.setattr(runner, "carry_out", lambda *_: pytest.fail("it was run"))
        again = go(study_file, animals_file, tmp_path / "here", small, known=known, **first)
    assert again.rows == there.rows
    go(study_file, animals_file, tmp_path / "here", small, known=known, **narrow)
    assert table(tmp_path / "here") == table(tmp_path / "whole")
    assert len(whole.rows) == 4


def test_what_another_machine_did_with_other_settings_is_run(
    study_file: Path, animals_file: Path, small: dict[str, Any], tmp_path: Path
) -> None:
    narrow = {"rows": ["supervised"], "seeds": [0], "fractions": [0.3], "workers": 1}
    there = go(study_file, animals_file, tmp_path / "there", small, **narrow)
    known = tmp_path / "there" / "results.csv"
    here = go(study_file, animals_file, tmp_path / "here", {**small, "train.lr": 0.1}, known=known, **narrow)
    assert here.rows[0]["settings"] != there.rows[0]["settings"]
    assert (tmp_path / "here/animals/30/seed0/supervised/journal.jsonl").exists()


def test_a_part_that_is_run_leaves_the_others_in_the_tables(
    study_file: Path, animals_file: Path, small: dict[str, Any], tmp_path: Path
) -> None:
    narrow = {"fractions": [0.3], "workers": 1}
    go(study_file, animals_file, tmp_path / "out", small, rows=["supervised"], seeds=[0], **narrow)
    both = go(study_file, animals_file, tmp_path / "out", small, rows=["pl"], seeds=[5], **narrow)
    assert [(row["method"], row["seed"]) for row in table(tmp_path / "out")] == [("supervised", "0"), ("pl", "5")]
    assert [line[0] for line in both.tables[0].lines] == ["Supervised", "PL (data distillation)"]


def test_words_above_a_table_are_of_all_its_rows(
    study_file: Path, animals_file: Path, small: dict[str, Any], tmp_path: Path
) -> None:
    longer = "{name: longer, method: supervised, train.steps_per_epoch: 3}"
    study_file.write_text(study_file.read_text().replace("rows: [", f"rows: [{longer}, "))
    del small["train.steps_per_epoch"]
    small["train.epochs"], narrow = 1, {"seeds": [0], "fractions": [0.3], "workers": 1}
    study_file.write_text(study_file.read_text() + "settings: {train.steps_per_epoch: 2}\n")
    go(study_file, animals_file, tmp_path / "out", small, rows=["supervised"], **narrow)
    go(study_file, animals_file, tmp_path / "out", small, rows=["longer"], **narrow)
    page = (tmp_path / "out" / "table.md").read_text()
    assert "a training of 3 steps of 8 images, tiny at 32 px (supervised: 2 steps of 8 images" in page


def test_rows_that_are_known_twice_count_once(
    study_file: Path, animals_file: Path, small: dict[str, Any], tmp_path: Path
) -> None:
    narrow = {"rows": ["supervised"], "seeds": [0], "fractions": [0.3], "workers": 1}
    go(study_file, animals_file, tmp_path / "there", small, **narrow)
    known = tmp_path / "there" / "results.csv"
    known.write_text(known.read_text() + known.read_text().splitlines()[1] + "\n")
    here = go(study_file, animals_file, tmp_path / "here", small, known=known, **narrow)
    assert len(here.rows) == 1
    assert here.tables[0].lines[0][4] == "1"


def test_test_images_are_not_scored_while_settings_are_chosen(
    study_file: Path, animals_file: Path, small: dict[str, Any], tmp_path: Path
) -> None:
    study_file.write_text(study_file.read_text() + "scored_on: val\n")
    narrow = {"rows": ["supervised"], "seeds": [0], "fractions": [0.3], "workers": 1}
    (row,) = go(study_file, animals_file, tmp_path / "out", small, **narrow).rows
    assert (row["test"], row["test_pck"]) == (None, None)
    assert row["val"] is not None
    run = tmp_path / "out/animals/30/seed0/supervised"
    assert json.loads((run / "round_0/metrics.json").read_text())["test"] is None
    assert len(json.loads((run / "split.json").read_text())["test"]) == 10  # which nobody trains on, either


def test_a_dataset_without_a_test_part_is_refused_before_anything_is_trained(
    study_file: Path, animals_file: Path, small: dict[str, Any], tmp_path: Path
) -> None:
    file = animals_file.with_name("untested.yaml")
    file.write_text("labeled: annotations.json\n")
    with pytest.raises(InputError, match=r"animals: has no test images\. Name some .* or set scored_on: val"):
        go(study_file, file, tmp_path / "out", small)
    assert not (tmp_path / "out").exists()


def test_a_study_without_a_run_is_refused(study_file: Path, animals_file: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="study mine: there is nothing to run"):
        go(study_file, animals_file, tmp_path / "out", {}, rows=["pl"], fractions=[1.0])


def test_budgets_that_differ_are_said(study_file: Path, animals_file: Path, small: dict[str, Any]) -> None:
    longer = "{name: longer, method: supervised, train.steps_per_epoch: 4}"
    study_file.write_text(study_file.read_text().replace("rows: [", f"rows: [{longer}, "))
    del small["train.steps_per_epoch"]
    _, specs = studies.plan_study(str(study_file), {"animals": animals_file}, Path("out"), overrides=small)
    steps = 2 * scale_settings("cpu")["train.steps_per_epoch"]  # in two epochs
    assert studies.budget(specs) == (
        f"{steps} steps of 8 images, tiny at 32 px (longer: 8 steps of 8 images, tiny at 32 px)"
    )
    assert studies.metric(specs) == "PCK@0.1"


def test_known_results_that_are_none(
    study_file: Path, animals_file: Path, small: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "known.csv"
    file.write_text("name,score\na,1\n")
    with pytest.raises(InputError, match=r"known\.csv: is not the results\.csv of a study"):
        go(study_file, animals_file, tmp_path / "out", small, known=file)
    assert not (tmp_path / "out").exists()


def test_runs_on_the_same_labels_share_their_first_network(
    study_file: Path, animals_file: Path, small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner_loop, trained = training.inner_loop_distributed, []

    def spy(*arguments: Any, **more: Any) -> Any:
        trained.append(arguments)
        return inner_loop(*arguments, **more)

    monkeypatch.setattr(training, "inner_loop_distributed", spy)
    narrow = {"rows": ["supervised", "pl", "fixed-0.3"], "seeds": [0], "fractions": [0.3]}
    result = go(study_file, animals_file, tmp_path / "out", small, workers=1, **narrow)
    assert len(trained) == 3  # the supervised network once
    assert [row["trainings"] for row in result.rows] == [1, 2, 2]  # and yet each has paid for it
    first = [tmp_path / "out/animals/30/seed0" / name / "round_0/model.safetensors" for name in ("pl", "supervised")]
    assert first[0].read_bytes() == first[1].read_bytes()


def test_a_run_that_fails_is_told_and_the_others_go_on(
    study_file: Path, animals_file: Path, small: dict[str, Any], tmp_path: Path
) -> None:
    foreign = tmp_path / "out" / "animals" / "30" / "seed0" / "supervised"
    foreign.mkdir(parents=True)
    (foreign / "something").touch()
    result = go(study_file, animals_file, tmp_path / "out", small, workers=1, rows=["supervised", "pl"], seeds=[0])
    ((name, reason),) = result.failed.items()
    assert name == "animals, supervised, 30 %, seed 0"
    assert "is not empty and not a run" in reason
    assert [(row["method"], row["fraction"]) for row in result.rows] == [("supervised", 1.0), ("pl", 0.3)]


def test_runs_of_other_settings_are_not_taken_for_these(
    study_file: Path, animals_file: Path, small: dict[str, Any], tmp_path: Path
) -> None:
    narrow = {"rows": ["supervised"], "seeds": [0], "fractions": [0.3], "workers": 1}
    go(study_file, animals_file, tmp_path / "out", small, **narrow)
    changed = go(study_file, animals_file, tmp_path / "out", {**small, "train.lr": 0.1}, **narrow)
    assert changed.rows == []
    assert "was made with another configuration" in next(iter(changed.failed.values()))


def test_every_round_can_be_a_row(animals_file: Path, study_file: Path, small: dict[str, Any], tmp_path: Path) -> None:
    study_file.write_text(
        "title: x\ndatasets: [animals]\nfractions: [0.3]\nseeds: [0]\nrows: [fixed-0.3]\nevery_round: true"
    )
    result = go(study_file, animals_file, tmp_path / "out", {**small, "rounds.count": 2}, workers=1)
    assert [row["method"] for row in result.rows] == ["fixed-0.3-r0", "fixed-0.3-r1", "fixed-0.3-r2", "fixed-0.3"]
    assert result.rows[-1]["test"] == result.rows[-2]["test"]


def test_runs_and_hours_are_listed(
    study_file: Path, animals_file: Path, small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(studies.cost, "SECONDS", 0.01)
    out = tmp_path / "out"
    narrow = {"rows": ["supervised", "mine"], "fractions": [0.3]}
    go(study_file, animals_file, out, small, workers=1, **{**narrow, "rows": ["supervised"], "seeds": [0]})
    plan = studies.plan_study(str(study_file), {"animals": animals_file}, out, overrides=small, **narrow)
    runs = studies.list_runs(*plan)
    assert [(run["method"], run["done"], run["trainings"]) for run in runs] == [
        ("supervised", True, 1), ("supervised", False, 1), ("mine", False, 6), ("mine", False, 6),
    ]  # fmt: skip
    assert runs[0]["hours"] == 0
    assert json.dumps(runs)


def test_a_run_is_not_done_because_another_of_its_row_took_no_time(
    study_file: Path, animals_file: Path, small: dict[str, Any], tmp_path: Path
) -> None:
    narrow = {"rows": ["supervised"], "fractions": [0.3]}
    go(study_file, animals_file, tmp_path / "first", small, workers=1, seeds=[0], **narrow)
    known = tmp_path / "known.csv"
    rows = [{**row, "seconds": "0.0"} for row in table(tmp_path / "first")]
    with open(known, "w", newline="") as file:
        writer = csv.DictWriter(file, results.COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    plan = studies.plan_study(str(study_file), {"animals": animals_file}, tmp_path / "out", overrides=small, **narrow)
    assert [(run["seed"], run["done"]) for run in studies.list_runs(*plan, known)] == [(0, True), (1, False)]


def test_nothing_is_written_when_a_dataset_is_missing(study_file: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="where is animals"):
        studies.study(str(study_file), {}, tmp_path / "out")
    assert not (tmp_path / "out").exists()

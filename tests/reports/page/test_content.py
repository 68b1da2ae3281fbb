"""What a report says, without a browser."""

import csv
import io
import json
import re
import shlex
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from small_run import small_data, small_run

from gamagat import cli
from gamagat.data.core import from_tensors
from gamagat.engine.compare import compare_runs
from gamagat.engine.masking.diagnose import CHECKS
from gamagat.engine.results import summarize
from gamagat.engine.run import read_run
from gamagat.errors import ConfigError, RunError
from gamagat.reports.page.content import gather
from gamagat.reports.page.diagnosis import SUBJECT, read_diagnosis
from gamagat.reports.page.render import as_html
from gamagat.reports.page.text import as_csv, as_markdown, escape
from gamagat.reports.page.words import folded
from gamagat.reports.page.write import write_report

HOSTILE = "<script>window.hacked=1</script>\"'><img src=x onerror=window.hacked=1>|`*_&amp;"


class Reader(HTMLParser):
    """The text of a page, its tags, and the cells of its tables, row by row."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.tags, self.attributes, self.rows = "", Counter[str](), Counter[str](), []
        self._cell = self._raw = False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes.update(name for name, _ in attrs)
        self._raw = tag in ("script", "style")
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self._cell = True

    def handle_endtag(self, tag):
        self._raw = False
        if tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data):
        if self._raw:
            return
        self.text += data
        if self._cell:
            self.rows[-1][-1] += data

    def row(self, name: str) -> list[str]:
        """The first row of any table that begins with this."""
        return next(row for row in self.rows if row and row[0].strip().startswith(name))


def page_of(*folders: Path) -> Reader:
    return Reader(as_html(gather(folders)))


def words(share) -> list[str]:
    low, high = share.ci95
    return [f"{share.percent:.2f}", f"{low:.2f}\u2013{high:.2f}"]


def test_the_numbers_are_those_of_the_run(digits):
    result, page = summarize(read_run(digits)), page_of(digits)
    assert page.row("clean")[1:3] == words(result.clean)
    assert page.row("worst case")[1:3] == words(result.standing)
    for attack in result.attacks:
        row = page.row(attack.name)
        assert row[1:3] == words(attack.standing)
        assert row[4:7] == [f"{cost:.1f}" for cost in (attack.forwards, attack.backwards, attack.seconds)]
        for member in attack.members:
            found = page.row(f"{member.name} ({member.fooled} fooled)")
            assert found[1:3] == words(member.standing)
    assert [attack.nearest is not None for attack in result.attacks] == [False, False, False, True]
    nearest = result.attacks[3].nearest
    assert page.row("fab:")[8:] == [f"{nearest.mean:.4g}", f"{nearest.median:.4g}"]
    assert f"{result.clean.count} of {result.clean.of} images" in page.text
    assert page.tags["h1"] == 1


def test_the_seconds_add_up_and_each_fall_to_one_attack_alone_is_counted(digits):
    [part] = gather([digits]).runs
    parts = [row.seconds for row in part.rows if row.kind in ("clean", "attack")]
    assert sum(parts) == pytest.approx(part.rows[-1].seconds)
    fooled = [np.any([part.run.fooled(entry) == 1 for entry in runs], axis=0) for _, runs in plan(part.run)]
    for number, row in enumerate(row for row in part.rows if row.kind == "attack"):
        others = np.any([each for place, each in enumerate(fooled) if place != number], axis=0)
        assert row.alone == (fooled[number] & ~others).sum()
        assert page_of(digits).row(row.name)[7] == str(row.alone)
    assert sum(row.alone or 0 for row in part.rows) > 0


def plan(run):
    return run.manifest.runs()


def test_a_page_about_one_run_has_a_way_through_it_and_no_folder_above_its_numbers(digits):
    html = as_html(gather([digits]))
    assert str(digits) not in "".join(re.findall(r"<h\d.*?</h\d>", html))
    targets = re.findall(r'<li><a href="#([^"]+)">', html)
    assert len(targets) > 4
    assert all(f'id="{target}"' in html for target in targets)
    levels = [int(level) for level in re.findall(r"<h(\d)", html)]
    assert all(later - sooner <= 1 for sooner, later in pairwise(levels))
    assert "Worst case over 4 attacks: an upper bound on robust accuracy" in html


def test_classes_add_up_to_the_headline(digits):
    [part] = gather([digits]).runs
    assert len(part.classes) == 10
    for which, whole in (("clean", part.result.clean), ("worst", part.result.standing)):
        shares = [getattr(row, which) for row in part.classes]
        assert sum(share.count for share in shares) == whole.count
        assert sum(share.of for share in shares) == whole.of


def test_the_charts_carry_their_numbers_as_tables_and_their_words_as_text(digits):
    [part] = gather([digits]).runs
    drawn = {chart.title: chart for chart in part.charts}
    by_eps = "Accuracy against eps: fab:steps=8"  # one line needs no legend
    assert list(drawn) == ["Accuracy after each run", "Accuracy against cost", by_eps]
    assert [len(chart.legend) for chart in drawn.values()] == [2, 4, 0]
    pgd = part.result.attacks[1]
    told = [line for line in drawn["Accuracy after each run"].numbers if line[0] == pgd.name]
    assert [line[2] for line in told] == [f"{left:.2f}" for left in pgd.curve]
    nearest = part.result.attacks[3].nearest
    assert [line[1:3] for line in drawn[by_eps].numbers] == [
        (f"{eps:.6g}", f"{share.percent:.2f}") for eps, share in nearest.curve()
    ]
    last = [line for line in drawn["Accuracy against cost"].numbers if line[0] == "fgsm"][-1]
    assert last[1:3] == ("2", f"{part.result.attacks[0].standing.percent:.2f}")
    for chart in drawn.values():
        assert chart.svg.startswith("<svg")
        assert "<title>" in chart.svg
        assert "<desc>" in chart.svg
        assert f">{chart.headings[1]}</text>" in chart.svg
        assert ">accuracy (%)</text>" in chart.svg


def test_the_page_needs_nothing_else(digits):
    page = as_html(gather([digits]))
    # The only addresses are those of pictures within the page and of its own parts.
    assert set(re.findall(r'(?:src|href)="(\w*[:#])', page)) == {"data:", "#"}
    assert "http://" not in page
    assert "https://" not in page
    assert "url(" not in page
    assert "default-src &#39;none&#39;; img-src data:;" in page
    script = re.search("<script>(.*?)</script>", page, re.S)
    assert script is not None
    assert len(script[1]) < 10_000


def test_every_setting_of_the_manifest_is_there(digits):
    page, manifest = page_of(digits), read_run(digits).manifest
    assert page.row("SHA-256 of the weights")[1] == manifest.weights_sha256
    assert page.row("eps as given")[1] == manifest.eps_given
    assert page.row("weights")[1] == "not given"
    assert page.row("seed")[1] == "0"
    assert page.row("run folder")[1] == str(digits)
    for number, attack in enumerate(manifest.attacks, start=1):
        assert page.row(f"attack {number}")[1] == attack["spec"]
    assert page.row("torch version")[1] == manifest.made["torch"]


@pytest.mark.parametrize("more", [[], ["--restarts", "2"], ["--norm", "l2", "--eps", "1/2"]])
def test_the_command_on_the_page_goes_on_with_the_same_run(tmp_path, monkeypatch, capsys, more):
    given = ["evaluate", "digits-cnn", "--data", "digits", "--n", "12", "--attack", "fgsm"]
    given += ["--attack", "pgd:steps=2,restarts=3", *more, "--out", str(tmp_path / "a run")]
    run_command(monkeypatch, given)
    kept = (tmp_path / "a run" / "manifest.json").read_bytes()
    [part] = gather([tmp_path / "a run"]).runs
    name, *again = shlex.split(part.command)
    assert name == "gamagat"
    # Had it other settings, it would be refused: the folder holds another run.
    assert run_command(monkeypatch, again) == 0
    assert [name, *again] == as_a_shell_reads(folded(part.command))
    assert (tmp_path / "a run" / "manifest.json").read_bytes() == kept
    capsys.readouterr()


def as_a_shell_reads(command: str) -> list[str]:
    told = subprocess.run(
        ["sh", "-c", f"printf '%s\\n' {command}"], capture_output=True, text=True, check=True
    )
    return told.stdout.splitlines()


def test_the_command_that_looks_for_masking_is_one_that_exists(digits, monkeypatch, capsys):
    [part] = gather([digits]).runs
    name, verb, *given = shlex.split(part.diagnose)
    assert (name, verb, given[-1]) == ("gamagat", "diagnose", str(digits))
    assert run_command(monkeypatch, [verb, *given[:-2], "--n", "0"]) == 2
    assert "No such option" not in (said := capsys.readouterr().err)
    assert "0" in said


def run_command(monkeypatch, given) -> int:
    monkeypatch.setattr(sys, "argv", ["gamagat", *map(str, given)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    return stop.value.code or 0


def test_two_runs_are_paired(nameless, tmp_path):
    small_run(tmp_path / "other", eps=0.05)
    other = tmp_path / "other"
    page, pair = page_of(nameless, other), compare_runs(read_run(nameless), read_run(other)).worst
    assert page.row("A stands")[1:3] == [str(pair.both), str(pair.only_a)]
    assert page.row("A falls")[1:3] == [str(pair.only_b), str(pair.neither)]
    rows = [row for row in page.rows if row and row[0] == "worst case"]
    assert rows[0][4] == f"{pair.points:+.2f}"
    assert rows[0][8] == f"{pair.p_value:.3g}"
    assert f"eps was {0.04} and is {0.05}" in page.text
    assert "2 runs compared" in page.text


def test_runs_with_different_attacks_are_compared_attack_by_attack(digits, weaker):
    page, result = page_of(digits, weaker), compare_runs(read_run(digits), read_run(weaker))
    assert "the worst cases are of different attacks" in page.text
    assert not [row for row in page.rows if row and row[0] == "A stands"]
    (heading,) = [number for number, row in enumerate(page.rows) if "McNemar p" in row]
    first, last = page.rows[heading + 1 : heading + 3]
    (fgsm,) = result.attacks
    assert (first[0], first[8]) == ("fgsm", f"{fgsm.p_value:.3g}")
    assert (last[0], last[4]) == ("worst case (different attacks)", f"{result.worst.points:+.2f}")
    # What is said before the table is of the shared attack as well.
    said = page.text.index("McNemar p = ")
    assert page.text[:said].rstrip().endswith("fgsm: exact")
    markdown = as_markdown(gather([digits, weaker]))
    assert markdown.index("fgsm: A - B") < markdown.index("worst case (different attacks)")


def test_runs_over_other_images_are_shown_side_by_side_with_the_reason(digits, nameless):
    page = page_of(digits, nameless)
    assert "are over different images" in page.text
    assert page.tags["h2"] == 4
    assert "are over different images" in as_markdown(gather([digits, nameless]))


def test_hostile_names_are_text(hostile):
    page = page_of(hostile)
    assert page.tags["script"] == 1
    assert "onerror" not in page.attributes
    assert page.text.count(HOSTILE) > 20
    assert f"fgsm{HOSTILE}" in page.text
    assert f"2{HOSTILE}" in page.text
    assert page.row(f"{HOSTILE} {HOSTILE} / seen")[1] == HOSTILE


def cells(markdown: str) -> list[list[str]]:
    """The tables of a Markdown text, without its escapes."""
    lines = [line for line in markdown.splitlines() if line.startswith("| ")]
    split = [re.split(r"(?<!\\)\|", line.removeprefix("|").removesuffix("|")) for line in lines]
    return [[re.sub(r"\\(.)", r"\1", cell.strip()) for cell in line] for line in split]


def test_markdown_reads_back(hostile):
    result, table = summarize(read_run(hostile)), cells(as_markdown(gather([hostile])))
    assert {len(line) for line in table[: 3 + len(result.attacks)]} == {9}
    rows = {line[0]: line for line in table}
    assert rows["clean"][1:3] == words(result.clean)
    assert rows["worst case"][1:3] == words(result.standing)
    for attack in result.attacks:
        assert rows[attack.name][1:3] == words(attack.standing)
    assert rows[f"3{HOSTILE}"][3].isdigit()


def test_markdown_holds_no_markup_of_others(hostile):
    text = as_markdown(gather([hostile]))
    outside = re.sub(r"`{3,}\n.*?\n`{3,}", "", text, flags=re.S)
    assert not re.search(r"(?<!\\)<", outside)
    assert escape("a\n| b") == r"a \| b"


@pytest.mark.parametrize("names", [["hostile"], ["digits", "weaker"]])
def test_csv_reads_back_to_the_last_digit(request, names):
    folders = [request.getfixturevalue(name) for name in names]
    lines = list(csv.DictReader(io.StringIO(as_csv(gather(folders)))))
    for folder in folders:
        result = summarize(read_run(folder))
        mine = [line for line in lines if line["run"] == str(folder)]
        attacks = [line for line in mine if line["kind"] == "attack"]
        assert [line["name"] for line in attacks] == [attack.name for attack in result.attacks]
        for line, attack in zip(attacks, result.attacks, strict=True):
            assert float(line["accuracy"]) == attack.standing.percent
            assert (float(line["ci95_low"]), float(line["ci95_high"])) == attack.standing.ci95
            assert float(line["forwards"]) == attack.forwards
            assert line["spec"] == attack.spec
        [worst] = [line for line in mine if line["kind"] == "worst case"]
        assert (int(worst["correct"]), int(worst["images"])) == (result.standing.count, result.standing.of)
        classes = [line for line in mine if line["kind"] == "class worst case"]
        assert sum(int(line["correct"]) for line in classes) == result.standing.count


def test_an_unfinished_run_says_so_and_counts_whole_chunks(unfinished):
    result, page = summarize(read_run(unfinished)), page_of(unfinished)
    assert result.unfinished
    assert f"This run is unfinished: {result.standing.of} of 60 images" in page.text
    assert "still to do: gama-pgd (2 runs), gama-mt (3 runs). Numbers" in page.text
    assert page.row("gama-mt")[1:3] == ["-", "-"]
    worst = f"worst case ({result.standing.of} of 60 images)"
    assert page.row(worst)[1:3] == words(result.standing)
    assert page.row("clean")[0].strip() == "clean"
    rows = {line[0]: line for line in cells(as_markdown(gather([unfinished])))}
    assert rows[worst][1:3] == words(result.standing)
    assert "Unfinished:" in as_markdown(gather([unfinished]))
    assert "still to do: gama-pgd (2 runs), gama-mt (3 runs)." in as_markdown(gather([unfinished]))


def test_classes_of_an_unfinished_run_add_up_as_well(unfinished, at_hand):
    at_hand()
    [part] = gather([unfinished]).runs
    assert part.result.standing.of < part.result.clean.of
    assert {row.images for row in part.classes} == {
        f"{row.worst.of} of {row.clean.of}" for row in part.classes
    }
    for which, whole in (("clean", part.result.clean), ("worst", part.result.standing)):
        shares = [getattr(row, which) for row in part.classes]
        assert (sum(share.count for share in shares), sum(share.of for share in shares)) == (
            whole.count,
            whole.of,
        )


def test_a_run_that_has_only_begun_has_a_page(empty):
    page = page_of(empty)
    assert "No image is through with any attack yet" in page.text
    assert "No attack has fooled the network on any image yet" in page.text
    assert "nan" not in page.text.lower().replace("finance", "")
    lines = list(csv.DictReader(io.StringIO(as_csv(gather([empty])))))
    assert {line["accuracy"] for line in lines} == {""}


def test_without_the_data_only_adversarial_images_are_shown(nameless):
    page = page_of(nameless)
    assert "Only the adversarial images are shown" in page.text
    assert "unknown data set 'small'" in page.text
    assert "The labels are not to be had" in page.text
    assert page.tags["img"] == len(gather([nameless]).runs[0].gallery(1).examples) > 0


def test_other_data_under_the_same_name_is_not_believed(nameless, at_hand):
    data = small_data()
    labels = (data.labels + 1) % 4
    at_hand(from_tensors(data.read(data.ids.argsort()), name="small", labels=labels, ids=data.ids))
    assert "is not the data of the run any more" in page_of(nameless).text
    at_hand(data.head(30))
    assert "now lacks images of the run" in page_of(nameless).text


def test_a_diagnosis_is_shown_if_there_is_one(changed):
    folder = changed()
    unchecked = page_of(folder).text
    assert "Gradient masking: not checked" in unchecked
    assert "gamagat diagnose" in unchecked
    assert "gamagat diagnose" in as_markdown(gather([folder]))
    tests = [{"name": "eps sweep", "value": 0.123456789, "passed": True}, {"name": "noise", "value": None}]
    (folder / "diagnosis.json").write_text(json.dumps({"verdict": "sound", "tests": tests, "runs": [1, 2]}))
    page = page_of(folder)
    assert "not checked" not in page.text
    assert page.row("verdict")[1] == "sound"
    assert page.row("tests eps sweep / value")[1] == "0.123457"
    assert page.row("tests eps sweep / passed")[1] == "yes"
    assert page.row("tests noise / value")[1] == "-"
    assert page.row("runs")[1] == "1, 2"
    (folder / "diagnosis.json").write_text("{")
    assert "cannot be read" in page_of(folder).row("diagnosis.json")[1]


def test_a_diagnosis_is_a_verdict_in_a_word_with_every_check_below(changed, diagnosis):
    folder = changed()
    (folder / "diagnosis.json").write_text(json.dumps(diagnosis))
    html = as_html(gather([folder]))
    text = " ".join(Reader(html).text.split())
    assert '<strong class="level suspicious">suspicious</strong>' in html
    assert "what warns is cleared up (single-step)" in text
    for name, level in (("square", "fine"), ("single-step", "warns"), ("transfer", "not checked")):
        told = f"{level} {name} seen {name} 12.5 % limit at most 5 % meaning It | means. next step Do this."
        assert told in text
    assert "Not checked transfer: no source network was given other norms" in text
    assert Reader(html).row("after all attacks")[1] == "41.2 %"
    markdown = as_markdown(gather([folder]))
    assert "**suspicious**: some numbers are not to be trusted" in markdown
    rows = {line[0]: line for line in cells(markdown)}
    assert rows["single-step"] == ["single-step", "warns", "single-step 12.5 %", "at most 5 %", "It | means.",
                                   "Do this."]  # fmt: skip
    assert "- transfer: no source network was given\n- other norms\n" in markdown


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": "unknown"},
        {"checks": [{"name": "x"}]},
        {"checks": 3},
        {"clean_accuracy": None},
        {"run": 1},
    ],
)
def test_a_diagnosis_of_another_form_is_a_plain_table_at_least(changed, diagnosis, change):
    folder = changed()
    (folder / "diagnosis.json").write_text(json.dumps(diagnosis | change))
    page = page_of(folder)
    assert page.row("model")[1] == "net"
    if "run" not in change:
        assert page.row("verdict")[1] == (diagnosis | change)["verdict"]


@pytest.mark.parametrize(("key", "value"), [("weights_sha256", "0"), ("norm", "l2"), ("eps", 0.5)])
def test_a_diagnosis_of_another_network_or_threat_is_no_verdict_on_the_run(changed, diagnosis, key, value):
    folder = changed()
    subject = {name: getattr(read_run(folder).manifest, name) for name in SUBJECT}
    (folder / "diagnosis.json").write_text(json.dumps(diagnosis | subject))
    assert "Gradient masking: suspicious" in page_of(folder).text
    (folder / "diagnosis.json").write_text(json.dumps(diagnosis | subject | {key: value}))
    page = page_of(folder)
    assert "Gradient masking: see below" in page.text
    assert page.row("not about this run")[1] == f"other {SUBJECT[key]}"
    assert page.row("verdict")[1] == "suspicious"


def test_what_the_command_writes_is_what_the_page_reads(changed, monkeypatch, capsys):
    folder = changed()
    words = ["diagnose", "digits-cnn", "--quick", "--n", "12", "--device", "cpu", "--out", folder]
    assert run_command(monkeypatch, words) in (0, 1, 4)
    capsys.readouterr()
    manifest, kept = read_run(folder).manifest, json.loads((folder / "diagnosis.json").read_text())
    subject = {name: kept[name] for name in SUBJECT}
    found = read_diagnosis(folder, replace(manifest, **subject))
    assert found is not None
    assert [each.name for each in found.checks] == [each.name for each in CHECKS]
    assert found.verdict
    assert not read_diagnosis(folder, manifest).verdict  # the run was of another network
    assert found.unchecked


def test_a_file_that_cannot_be_replaced_stays_whole(nameless, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("before")

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    content = gather([nameless])
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", refuse)
        with pytest.raises(RunError, match="Permission denied; give another file with --out"):
            write_report(content, "html", path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
    for wrong in (tmp_path, tmp_path / "none" / "report.html"):
        with pytest.raises(RunError, match="give another file with --out"):
            write_report(content, "csv", wrong)


def test_a_link_stays_a_link(nameless, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    size = write_report(gather([nameless]), "csv", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").stat().st_size == size


def test_half_a_character_in_a_name_does_not_stop_a_report(changed, tmp_path):
    content = gather([changed(model="net \ud800")])
    for form in ("html", "md", "csv"):
        assert write_report(content, form, tmp_path / f"report.{form}") > 0


def test_the_command_writes_beside_the_run_or_where_it_is_told(changed, tmp_path, monkeypatch, capsys):
    folder = changed()
    assert run_command(monkeypatch, ["report", folder]) == 0
    assert capsys.readouterr().out.startswith(str(folder / "report.html"))
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    assert run_command(monkeypatch, ["report", folder, "--markdown", "--csv"]) == 0
    assert {path.name for path in folder.glob("report.*")} == {"report.html", "report.md", "report.csv"}
    assert run_command(monkeypatch, ["report", folder, "--csv", "--out", tmp_path / "x.csv"]) == 0
    assert (tmp_path / "x.csv").read_bytes() == (folder / "report.csv").read_bytes()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["{run}", "--csv", "--markdown", "--out", "x"], "ask for one at a time"),
        (["{run}", "{run}"], "is given twice"),
        (["{run}/none"], "holds no run"),
        ([], "Missing argument"),
    ],
)
def test_mistakes_are_one_sentence(nameless, monkeypatch, capsys, given, said):
    assert run_command(monkeypatch, ["report", *(word.format(run=nameless) for word in given)]) == 2
    assert said in capsys.readouterr().err


def test_no_run_is_no_report():
    with pytest.raises(ConfigError, match="at least one run folder"):
        gather([])

"""Files: valid, readable, small, and nothing left behind."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from gamagat.errors import ConfigError, RunError
from gamagat.reports.plots.core import Axis, Curve, Mark, Panel, Picture, Relief, check_out, save
from gamagat.reports.plots.paper.figure import draw, numbered
from gamagat.reports.plots.paper.panels import _spread, wrapped
from gamagat.reports.plots.paper.style import STYLE, look_of
from gamagat.reports.plots.toy import toy_picture

TEXT = "{http://www.w3.org/2000/svg}text"


def lines(count: int, length: int = 8) -> tuple[Curve, ...]:
    xs = tuple(float(x) for x in range(1, length + 1))
    return tuple(
        Curve(f"attack-{number}", xs, tuple(30 + number + 5 / x for x in xs), tuple(29.0 for _ in xs), xs)
        for number in range(count)
    )


def picture(*curves: Curve, **changes) -> Picture:
    panel = Panel("net on data", Axis("x (units)"), Axis("accuracy (%)"), curves or lines(3), **changes)
    return Picture("restarts", "What is shown", (panel,), "net-data", "A note.")


def relief(heights: np.ndarray, edge=()) -> Picture:
    ticks = tuple(np.linspace(-1, 1, len(heights)).tolist())
    rows = tuple(map(tuple, heights.tolist()))
    one = Relief("Loss of it", Axis("along"), Axis("across"), "loss", ticks, ticks, rows, edge, "the edge")
    return Picture("surface", "Surface", (one,), "net-data", "A note.")


def words(path: Path) -> str:
    """All text of an SVG."""
    return "\n".join("".join(item.itertext()) for item in ET.parse(path).iter(TEXT))


def check(files: list[Path]) -> tuple[Image.Image, str]:
    png, svg = files
    assert (png.suffix, svg.suffix) == (".png", ".svg")
    image = Image.open(png)
    image.load()
    assert image.format == "PNG"
    assert png.stat().st_size < 200_000
    assert image.info["dpi"] == pytest.approx((150, 150), abs=0.1)
    return image.convert("RGB"), words(svg)


def test_a_plot_is_two_files_with_all_words_as_text(tmp_path):
    marks = (Mark("kept", 3.0), Mark("clean", 40.0, "y"), Mark("fallen", 3.2))
    image, text = check(save(picture(marks=marks), tmp_path / "figure.png"))
    for word in ("What is shown", "net on data", "x (units)", "accuracy (%)", "attack-0", "attack-2",
                 "kept", "clean", "fallen", "A note."):  # fmt: skip
        assert word in text
    assert image.size == (1020, 645)


def test_a_surface_is_two_files_with_all_words_as_text(tmp_path):
    x = np.linspace(-1, 1, 31)
    heights = np.exp(-3 * (x[:, None] ** 2 + x**2)) + 0.2 * x
    edge = tuple(map(tuple, np.add.outer(x, x).tolist()))
    _, text = check(save(relief(heights, edge), tmp_path))
    for word in ("Loss of it", "along", "across", "loss", "the edge"):
        assert word in text
    _, text = check(save(relief(heights), tmp_path))
    assert "the edge" not in text


@pytest.mark.parametrize("heights", [np.zeros((5, 5)), np.where(np.eye(5) > 0, np.nan, 1.0 + np.eye(5, k=1))])
def test_a_flat_surface_and_one_with_holes_are_drawn(tmp_path, heights):
    check(save(relief(heights), tmp_path))


def test_nothing_of_matplotlib_stays_changed(tmp_path):
    mpl.rcParams["lines.linewidth"] = 7.5
    try:
        before = dict(mpl.rcParams)
        save(picture(), tmp_path)
        save(relief(np.eye(5)), tmp_path)
        assert dict(mpl.rcParams) == before
        assert STYLE["lines.linewidth"] != 7.5
        ours = (tmp_path / "restarts-net-data.svg").read_bytes()
    finally:
        mpl.rcParams["lines.linewidth"] = mpl.rcParamsDefault["lines.linewidth"]
    save(picture(), tmp_path)
    assert (tmp_path / "restarts-net-data.svg").read_bytes() == ours  # a user's settings do not show either


def test_it_works_without_a_display_and_without_pyplot(tmp_path):
    script = (
        "import sys; from pathlib import Path\n"
        "import gamagat.cli.plot\n"
        "from gamagat.reports.plots.core import save\n"
        "from gamagat.reports.plots.toy import toy_picture\n"
        "assert 'matplotlib' not in sys.modules\n"
        f"save(toy_picture(-1.8, 0.6, 30, 0.15), Path({str(tmp_path)!r}))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    # Without HOME matplotlib keeps its cache elsewhere and says so; this one keeps the user's.
    environment = {"PATH": "", "HOME": str(Path.home()), "MPLBACKEND": "TkAgg", "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    check([tmp_path / "toy.png", tmp_path / "toy.svg"])


def test_the_same_picture_is_the_same_file(tmp_path):
    for place in ("a", "b"):
        save(toy_picture(-1.8, 0.6, 30, 0.15), tmp_path / place)
    for name in ("toy.png", "toy.svg"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_dollar_a_bracket_and_a_strange_letter_are_themselves(tmp_path):
    line = Curve("pgd $x$ <b> & 漢", (1.0, 2.0), (3.0, 4.0))
    _, text = check(save(picture(line), tmp_path))
    assert "pgd $x$ <b> & 漢" in text


def boxes(figure):
    """The frames of the names at the right of the first panel, in pixels."""
    figure.draw_without_rendering()
    axes = figure.axes[0]
    return axes, [text.get_window_extent() for text in axes.texts]


@pytest.mark.parametrize("count", [1, 3, 8, 14])
def test_names_overlap_neither_each_other_nor_the_panel_and_are_not_cut(count):
    same = tuple(
        Curve(f"attack-{n}:steps=100,rate=0.25", (1.0, 2.0), (50.0, 50.0 + n / 99)) for n in range(count)
    )
    with mpl.rc_context(STYLE):
        figure = draw(picture(*same))
        axes, found = boxes(figure)
    assert len(found) == count
    panel = axes.get_window_extent()
    width, tall = figure.get_size_inches() * figure.dpi
    for number, box in enumerate(found):
        assert box.x0 > panel.x1
        assert box.x1 <= width + 1
        assert box.y0 >= 0
        assert box.y1 <= tall
        assert not any(box.overlaps(other) for other in found[number + 1 :])


def test_one_name_looks_alike_in_every_panel():
    first, second, third = lines(3)
    panels = [
        Panel("", Axis("x"), Axis("y"), curves) for curves in ((first, second), (third, first), (second,))
    ]
    with mpl.rc_context(STYLE):
        places = draw(Picture("a", "", tuple(panels))).axes
    found = [
        [line.get_color() for line in axes.lines[: len(p.curves)]]
        for axes, p in zip(places, panels, strict=True)
    ]
    assert found[0][0] == found[1][1]
    assert found[0][1] == found[2][0]
    assert len({found[0][0], found[0][1], found[1][0]}) == 3


def test_two_lines_of_a_panel_differ_in_colour_where_there_are_more_names_than_colours():
    def panel(*names: str) -> Panel:
        return Panel("", Axis("x"), Axis("y"), tuple(Curve(name, (0.0, 1.0), (0.0, 1.0)) for name in names))

    panels = [panel("whole", "ce", "clean"), panel(*"abcde"), panel("whole", "drift", "clean")]
    order = numbered(panels)
    looks = {name: look_of(number, panels[0].curves[0]).colour for name, number in order.items()}
    for each in panels:
        assert len({looks[curve.label] for curve in each.curves}) == len(each.curves)
    assert len({looks[name] for name in ("whole", "ce", "clean", *"abcde")}) == 8  # while there are enough


def test_names_stand_in_the_order_of_the_ends_of_their_lines():
    ends = {"low": 10.0, "high": 90.0, "middle": 50.0}
    with mpl.rc_context(STYLE):
        axes, found = boxes(draw(picture(*(Curve(name, (0.0, 1.0), (50.0, y)) for name, y in ends.items()))))
    order = sorted(
        zip((text.get_text() for text in axes.texts), found, strict=True), key=lambda item: -item[1].y0
    )
    assert [name for name, _ in order] == ["high", "middle", "low"]


def test_heights_are_moved_apart_as_little_as_need_be():
    assert _spread([0.9, 0.5, 0.1], [0.1] * 3) == [0.9, 0.5, 0.1]
    assert _spread([0.5, 0.5], [0.1, 0.1]) == pytest.approx([0.5, 0.4])
    assert _spread([0.0, 0.0, 0.0], [0.1] * 3) == pytest.approx([0.2, 0.1, 0.0])


def test_long_names_are_broken_after_commas_and_nothing_of_them_is_lost():
    name = "gama-pgd:steps=100,weight=50,fade=0.25,rate=2 (a folder) " + "x" * 70
    parts = wrapped(name)
    assert max(map(len, parts)) <= 28
    assert "".join(parts).replace(" ", "") == name.replace(" ", "")
    assert parts[0] == "gama-pgd:steps=100,"


def test_no_two_lines_look_alike_in_grey():
    looks = [look_of(number, line) for number, line in enumerate(lines(16))]
    assert len({(str(look.dash), look.marker) for look in looks}) == 16


def test_where_files_go(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = picture()
    assert [str(path) for path in save(shown)] == ["restarts-net-data.png", "restarts-net-data.svg"]
    assert save(shown, Path("new/folder"))[0] == Path("new/folder/restarts-net-data.png")
    assert save(shown, Path("v1.2.svg"))[0] == Path("v1.2.png")
    assert save(shown, Path("run-0.5"))[1] == Path("run-0.5/restarts-net-data.svg")
    assert all(
        path.is_file() for path in map(Path, ["v1.2.png", "v1.2.svg", "new/folder/restarts-net-data.svg"])
    )


def test_where_they_cannot_go(tmp_path):
    (tmp_path / "file").write_text("")
    for place, message in (("a.pdf", r"written as .png and .svg, got --out .*a.pdf; write a.png"),
                           ("file/a.png", "lies below a file")):  # fmt: skip
        with pytest.raises(ConfigError, match=message):
            check_out(tmp_path / place)
    check_out(None)
    check_out(tmp_path / "not" / "yet" / "there.png")
    with pytest.raises(RunError, match="cannot write"):
        save(picture(), tmp_path / "file" / "a.png")

"""Numbers and names as a report writes them."""

import pytest

from gamagat.engine.share import Share
from gamagat.reports.page.words import breaks, eps_words, folded, interval, plain


@pytest.mark.parametrize(
    ("eps", "words"),
    [(8 / 255, "8/255"), (128 / 255, "128/255"), (0.2, "0.2"), (3 * 0.1, "0.3"), (0.0, "0"), (1, "1"),
     (0.0313, "0.0313"), (1 / 7, "0.142857")],
)  # fmt: skip
def test_eps_is_written_as_people_write_it(eps, words):
    assert eps_words(eps) == words


def test_names_break_after_colons_and_commas_and_stay_text():
    assert breaks("pgd:steps=5,<b>") == "pgd:<wbr>steps=5,<wbr>&lt;b&gt;"
    assert breaks("A: b, c") == "A: b, c"
    assert breaks("runs/mine at 8/255") == "runs/<wbr>mine at 8/255"


def test_numbers_have_thousands_apart_and_intervals_a_dash():
    assert (plain(12345.67), plain(None), plain(12345, ",d")) == ("12,345.7", "", "12,345")
    assert interval(Share(1, 2)) == "9.45\u201390.55"
    assert interval(Share(0, 0)) == "-"


def test_a_command_has_one_option_on_each_line():
    assert folded("gamagat evaluate net --n 5 --out 'a --b'") == (
        "gamagat evaluate net \\\n  --n 5 \\\n  --out 'a --b'"
    )

"""The choice among the examples, in a real browser."""

from gamagat.engine.run import read_run

STEP = 24  # examples at a time, as in page.js
FIRST = "[...document.querySelectorAll('#run1-gallery > li')].filter((item) => item.offsetParent).length"
VISIBLE = "[...document.querySelectorAll('.gallery > li')].filter((item) => item.offsetParent).length"


def choose(browser, **values) -> None:
    for name, value in values.items():
        browser.run(f"""(() => {{
          const choice = document.querySelector('form.filters').elements['{name}'];
          choice.value = '{value}'; choice.dispatchEvent(new Event('change', {{bubbles: true}}));
        }})()""")


def test_filters_show_what_fits_and_say_how_many(browser, page):
    browser.open(page)
    every = browser.run("document.querySelectorAll('#run1-gallery > li').length")
    choose(browser, attack="1", **{"class": "2"})
    wanted = browser.run(
        'document.querySelectorAll(\'#run1-gallery > li[data-class="2"][data-attack="1"]\').length'
    )
    assert 0 < wanted < STEP < every
    assert browser.run(FIRST) == wanted
    said = "document.querySelector('form.filters output')"
    assert browser.run(f"{said}.textContent") == (
        f"{wanted} of {wanted} examples that fit ({every} in all) shown"
    )
    assert browser.run(f"{said}.getAttribute('aria-live')") == "polite"
    captions = browser.run(
        "[...document.querySelectorAll('#run1-gallery > li:not([hidden])')].map((item) => item.innerText)"
    )
    chosen = browser.run("document.querySelector('select[name=attack]').selectedOptions[0].text")
    assert all(chosen in caption for caption in captions)
    browser.run("document.querySelector('form.filters button').click()")
    assert browser.run("new Promise((done) => setTimeout(done, 50))") is None
    assert browser.run(FIRST) == STEP


def test_more_are_shown_at_a_press_until_none_is_left(browser, page):
    browser.open(page)
    every = browser.run("document.querySelectorAll('#run1-gallery > li').length")
    said = "document.querySelector('form.filters output').textContent"
    button = "document.querySelector('#run1-gallery + .more button')"
    shown = STEP
    while shown < every:
        assert browser.run(FIRST) == shown
        assert browser.run(said) == f"{shown} of {every} examples shown"
        assert browser.run(f"{button}.textContent") == f"Show {min(STEP, every - shown)} more"
        browser.run(f"{button}.focus()")
        browser.press("Enter", 13, "\r")
        shown += STEP
    assert browser.run(FIRST) == every > STEP
    assert browser.run(f"{button}.offsetParent === null")
    # The button is gone, and the focus is on the first of the last ones.
    place = "[...document.activeElement.parentElement.children].indexOf(document.activeElement)"
    assert browser.run(place) == shown - STEP
    choose(browser, attack="0")
    assert browser.run(FIRST) <= STEP  # a new choice begins anew


def test_filters_list_attacks_in_the_order_of_the_plan(browser, page, digits):
    browser.open(page)
    listed = browser.run(
        "[...document.querySelector('select[name=attack]').options].slice(1).map((o) => o.text)"
    )
    plan = [name for name, _ in read_run(digits).manifest.runs()]
    places = [plan.index(name.partition(" > ")[0]) for name in listed]
    assert places == sorted(places)
    assert len(set(places)) > 2


def test_filters_work_from_the_keyboard(browser, page):
    browser.open(page)
    before = browser.run(VISIBLE)
    browser.run("document.querySelector('select[name=attack]').focus()")
    browser.press("ArrowDown", 40)
    assert browser.run("document.querySelector('select[name=attack]').value") == "0"
    assert browser.run(VISIBLE) < before
    browser.press("Tab", 9)
    assert browser.run("document.activeElement.type") == "reset"
    browser.press("Enter", 13, "\r")
    browser.run("new Promise((done) => setTimeout(done, 50))")
    assert browser.run(VISIBLE) == before


def test_on_a_phone_there_are_two_examples_in_a_row(browser, page):
    browser.open(page, 390)
    lefts = browser.run(
        "[...document.querySelectorAll('#run1-gallery > li:not(.later)')].map((one) => one.offsetLeft)"
    )
    assert len(set(lefts)) == 2

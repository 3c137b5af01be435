"""The HTML report: one file, whatever the store; rows that can be filtered; a section per method; nobody's text acts."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from helpers.made_up_ladder import made_up_ladder
from helpers.made_up_results import result, study

from zoo.report.findings import Findings
from zoo.report.html_report import html_report

KAPPAS = {"v1_m4": 1.15, "v1_m3": 1.0, "wr_1": 0.9, "wr_8_2(n=2)": 1.0}


class Page(HTMLParser):
    """What a browser would make of a page: elements with their attributes, and that each is closed."""

    VOID = ("meta", "input", "rect", "path", "circle", "polyline", "polygon", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def both() -> str:
    made = made_up_ladder(KAPPAS, ("sequential", "parallel"), times={"v1_m4": 1.05})
    return html_report(Findings.of([*made.results, *study(-0.1)], made.notes))


def test_it_is_one_file_that_fetches_nothing(both: str) -> None:
    page = Page(both)
    assert page.open == [] and len(page.all("script")) == 1 and page.all("link") == [] and page.all("img") == []
    assert not re.search(r"""(?:src|href|action)=["'](?!#)""", both) and "@import" not in both and "url(" not in both
    (policy,) = [each["content"] for each in page.all("meta") if "http-equiv" in each]
    assert policy.startswith("default-src 'none'") and "script-src 'sha256-" in policy


def test_every_link_leads_to_a_section(both: str) -> None:
    page = Page(both)
    ids = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    targets = {attributes["href"].removeprefix("#") for attributes in page.all("a")}
    assert targets <= ids and {"method-v1_m4", "method-m", "top"} <= targets
    sections = [each["id"] for each in page.all("section")]
    assert len(sections) == len(set(sections)) == 7  # four methods, two controls that are methods, and m


def test_rows_say_what_they_can_be_filtered_by(both: str) -> None:
    rows = [each for each in Page(both).all("tr") if "data-verdict" in each]
    every = [each for each in rows if not each["data-size"]]
    assert len(every) == 2 * (4 + 3) + 1 and not any("hidden" in each for each in every)
    assert all("hidden" in each for each in rows if each["data-size"])
    assert {each["data-host"] for each in every} == {"sequential", "parallel"}
    assert {each["data-family"] for each in every} >= {"v1", "weak_recurrence", "–"}
    options = {each["value"] for each in Page(both).all("option")}
    assert {each["data-size"] for each in rows} | {each["data-verdict"] for each in rows} <= options
    assert "rung 1: 100 k parameters, 2 M tokens" in options


def test_a_row_of_one_size_has_its_own_time() -> None:
    """Its verdict is made of κ_time too, so that has to stand beside it."""
    page = html_report(made_up_ladder({"v1_m4": 1.15}, times={"v1_m4": 1.25}).findings)
    rows = [row for row in page.split("<tr") if ">v1_m4</a>" in row and 'data-size="' in row]
    cells = [re.findall(r'data-label="κ_time"[^>]*>([^<]*)<', row) for row in rows]
    assert len(rows) == 4 and [len(each) for each in cells] == [1] * 4  # all sizes together, and each of three
    assert all(0.8 < float(value) < 1.05 for (value,) in cells)
    assert "κ_time: the same in seconds" in page


def test_the_first_screen_comes_first_and_long_tables_last(both: str) -> None:
    order = ["By ladder", 'class="answers"', 'class="filters"', 'class="standings"', "At one size", "All tables"]
    places = [both.index(f"{each}" if each != "All tables" else "<h2>All tables") for each in order]
    assert places == sorted(places)
    assert both.index("<h2>All tables") < both.index("<details><summary>Compute multipliers")


def test_a_section_has_curves_kappa_costs_and_learned_values(both: str) -> None:
    section = both.partition('id="method-v1_m4"')[2].partition("</section>")[0]
    for title in (
        "κ against compute, parallel host",
        "Learning curves",
        "Cost beside the plain block",
        "Claimed",
        "gate at",
    ):
        assert title in section, title
    assert section.count("<svg xmlns") == 2 * 3


def test_what_others_wrote_does_nothing() -> None:
    nasty = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'
    runs = [*study(-0.1), *(result(nasty, s, 2.9 + s / 10, host=nasty, probes={nasty: {"1": 0.5}}) for s in (1, 2, 3))]
    page = Page(html_report(Findings.of(runs)))
    assert page.open == [] and len(page.all("script")) == 1 and page.all("img") == []
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)


def test_a_store_without_any_comparison_has_a_page() -> None:
    assert "nothing to compare yet" in html_report(Findings.of([result("baseline", 1, 3.0)]))


@pytest.mark.parametrize("loss", [3.0, 1e100, 1e-300])
def test_losses_that_are_all_the_same_or_absurd_have_a_page(loss: float) -> None:
    same = [result("baseline", 1, 3.0), result("baseline", 2, 3.0), result("m", 1, loss), result("m", 2, loss)]
    page = Page(html_report(Findings.of(same)))
    assert page.open == [] and len(page.all("section")) == 1


def test_the_host_is_a_column_only_where_there_are_several() -> None:
    for hosts in (("sequential",), ("sequential", "parallel")):
        page = html_report(made_up_ladder({"v1_m4": 1.1}, hosts).findings)
        first = page[: page.index("</table>")]
        assert ("<th>host</th>" in first) == (len(hosts) > 1)
        assert ("(κ), sequential host</h2>" in first) == (len(hosts) == 1)
        assert first.count('data-label="host"') == (first.count("<tr ") if len(hosts) > 1 else 0)


def test_many_methods_have_no_page_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.report.method_pages.MOST_PAGES", 1)
    page = Page(html_report(Findings.of([*study(-0.1), *(result("n", s, 3.0 + s / 10) for s in (1, 2, 3))])))
    assert [each["id"] for each in page.all("section")] == ["method-m"]
    assert [each["href"] for each in page.all("a")] == ["#how-sure", "#method-m", "#method-m", "#top"]

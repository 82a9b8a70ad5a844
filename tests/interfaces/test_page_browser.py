"""Does the page work in a real browser? Chromium, driven by Playwright, over a real server's process."""

import re
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, expect, sync_playwright

from annai.config import load_config
from annai.interfaces.cli.open import _leading_file
from annai.serving.client import Client
from annai.serving.pidfile import read_token, running
from annai.serving.tokens import TokenFile
from tests.browser import CHROMIUM, needs_chromium
from tests.conftest import Annai, state_of
from tests.loopback import eventually
from tests.payloads import PAYLOADS

AXE = Path(next(iter(find_spec("axe_playwright_python").submodule_search_locations or ()))) / "axe.min.js"  # type: ignore[union-attr]
"""axe-core's own script."""

pytestmark = [pytest.mark.xdist_group("browser"), needs_chromium]

Write = Callable[[str, str], Path]
Open = Callable[..., Page]

ROLLBACK = """# Deployment

How we ship.

## Roll back a bad deployment

If customers are affected, roll back first and look for the cause afterwards. See [the handbook](handbook.md#holidays)
or [the site](https://example.com/). ![A chart](chart.png) ![Far away](https://far.example/x.png)

## Feature flags

Flags turn a feature on for some customers only, without another deployment, and off again at once.
"""
SETUP = """# 環境構築

開発環境を用意する方法を、新しいパソコンを受け取ったところから順に説明します。

## 必要なもの

Docker と Python が必要です。はじめにこれらを入れてください。
"""
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d4944415478da63fccfc0500f00048501"
    "80845986b10000000049454e44ae426082"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def served(annai: Annai, write: Write, docs: Path) -> Iterator[Annai]:
    """A project with a running server."""
    (docs / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n\n[chunking]\nmin_tokens = 0\n')
    write("deployment.md", ROLLBACK)
    write("環境構築.md", SETUP)
    write(
        "handbook.md",
        "# Handbook\n\nAll of it.\n\n## Holidays\n\nTwenty-five days a year, and the last week of December.\n",
    )
    (docs / "chart.png").write_bytes(PIXEL)
    annai("server", "start", "--port", "auto")
    yield annai
    annai("server", "stop")


@pytest.fixture
def open_page(served: Annai, browser: Browser, docs: Path) -> Iterator[Open]:
    """Opens the page as `annai open` does; whatever leaves its origin, or fails in it, fails the test."""
    contexts, trouble = [], []

    def open_(language: str = "en-US", scheme: str = "light", width: int = 1100) -> Page:
        context = browser.new_context(
            locale=language, color_scheme=scheme, viewport={"width": width, "height": 800},  # type: ignore[arg-type]
            permissions=["clipboard-read", "clipboard-write"],
        )  # fmt: skip
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        opened = served("open", environment={"BROWSER": "echo %s"}).stdout
        address = re.findall(r"http\S+#ticket=\S+", opened)[0]
        origin = address.partition("/#")[0]

        def check(request: Request) -> None:
            if not request.url.startswith((origin, "blob:", state_of(docs).as_uri())):
                trouble.append(f"{request.url} was asked for")

        def note(message: ConsoleMessage) -> None:
            # What the server refuses or does not have is no trouble of the page's.
            if message.type == "error" and not message.text.startswith("Failed to load resource: the server responded"):
                trouble.append(message.text)

        page.on("request", check)
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("console", note)
        page.goto(address)
        # The ticket is used after the page has loaded.
        eventually(lambda: bool(page.evaluate("sessionStorage.getItem('annai_token')")))
        return page

    yield open_
    for context in contexts:
        context.close()
    assert trouble == []


def search(page: Page, question: str) -> Locator:
    page.fill("#question", question)
    expect(page.locator("#results")).to_have_attribute("data-for", question)
    return page.locator(".result")


def test_a_question_is_answered_and_its_hit_is_opened_at_the_marked_lines(open_page: Open) -> None:
    page = open_page()
    results = search(page, "how do I roll back a bad deployment?")
    expect(results.first.locator(".open")).to_have_text("Deployment › Roll back a bad deployment")
    expect(results.first.locator("mark").first).to_be_visible()
    expect(page).to_have_url(re.compile(r"\?q=how\+do"))
    results.first.locator(".open").click()
    hit = page.locator("#text .hit")
    expect(hit).to_contain_text("roll back first")
    expect(hit).to_be_in_viewport()
    expect(page.locator("#outline [aria-current]")).to_have_text("Roll back a bad deployment")
    page.click("#copy")
    assert page.evaluate("navigator.clipboard.readText()") == "deployment.md:7"
    # Images of the collection are there, those of others are links, and links between documents work.
    assert page.locator("#text img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 1
    expect(page.locator("#text a", has_text="Far away")).to_have_attribute("href", "https://far.example/x.png")
    page.click("#text a >> text=the handbook")
    expect(page.locator("#text .hit")).to_have_text("Holidays")
    page.go_back()
    expect(page.locator("#reader-title")).to_contain_text("Roll back")
    page.click("#parent")
    expect(page.locator("#reader-file")).to_have_text("deployment.md:1")
    page.click("#children-links a >> nth=1")
    expect(page.locator("#text .hit")).to_have_text("Feature flags")
    page.click("#back")
    expect(page.locator("#question")).to_have_value("how do I roll back a bad deployment?")


def test_the_page_speaks_japanese_and_half_typed_words_ask_nothing(open_page: Open) -> None:
    page = open_page("ja-JP")
    expect(page.locator("nav [data-view=index]")).to_have_text("索引")
    expect(page.locator("html")).to_have_attribute("lang", "ja")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.post_data or "") if "/rpc" in request.url else None)
    page.locator("#question").focus()
    typing = page.context.new_cdp_session(page)
    for typed in ("か", "かんき", "かんきょう"):
        typing.send(
            "Input.imeSetComposition", {"text": typed, "selectionStart": len(typed), "selectionEnd": len(typed)}
        )
    page.evaluate("new Promise(resolve => setTimeout(resolve, 200))")
    assert not [each for each in asked if '"search"' in each]
    typing.send("Input.insertText", {"text": "環境構築の方法"})
    expect(page.locator(".result .open").first).to_have_text("環境構築")
    expect(page.locator(".result mark").first).to_have_text("環境構築")
    page.select_option("#language", "en")
    expect(page.locator("nav [data-view=index]")).to_have_text("Index")
    expect(page.locator("#question")).to_have_value("環境構築の方法")


def test_an_edited_file_changes_the_answer_by_itself(open_page: Open, write: Write) -> None:
    page = open_page()
    expect(search(page, "how many holidays a year").first.locator(".preview")).to_contain_text("Twenty-five")
    write("handbook.md", "# Handbook\n\n## Holidays\n\nThirty-one days a year, holidays for everybody.\n")
    expect(page.locator(".result .preview").first).to_contain_text("Thirty-one")
    page.locator(".result .open").first.click()
    expect(page.locator("#text")).to_contain_text("Thirty-one")
    write("handbook.md", "# Handbook\n\n## Holidays\n\nForty days a year, holidays for everybody.\n")
    expect(page.locator("#text")).to_contain_text("Forty")


def test_everything_can_be_done_from_the_keyboard(open_page: Open) -> None:
    page = open_page()
    page.locator("#question").blur()
    page.keyboard.press("/")
    page.keyboard.type("handbook of deployment")
    expect(page.locator("#results")).to_have_attribute("data-for", "handbook of deployment")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    expect(page.locator(".result .open").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#search")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    expect(page.locator("#question")).to_have_value("")
    expect(page.locator(".result")).to_have_count(0)


def test_filters_restrict_the_search_and_stay_in_the_address(open_page: Open) -> None:
    page = open_page()
    page.click("#filters summary")
    search(page, "deployment")
    page.fill("[name=path]", "handbook.md")
    expect(page.locator(".result .file")).to_have_text([re.compile("handbook.md")])
    page.select_option("[name=mode]", "keyword")
    expect(page).to_have_url(re.compile("mode=keyword"))
    page.reload()
    expect(page.locator("[name=path]")).to_have_value("handbook.md")
    expect(page.locator("[name=mode]")).to_have_value("keyword")
    page.fill("[name=path]", "")
    page.select_option("[name=since]", "1w")
    page.fill("[name=where]", "updated>=2020, status")
    expect(page.locator(".result")).not_to_have_count(0)
    page.fill("[name=where]", "status=draft")
    expect(page.locator("#summary")).to_contain_text("No document has status=draft.")


def test_the_index_is_watched_and_changed(open_page: Open, write: Write, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "zebra.md").write_text("# Zebras\n\nThey have stripes.")
    write("binary.md", "\0\1\2")
    page = open_page()
    page.click("nav [data-view=index]")
    expect(page.locator("#left-out")).to_contain_text("binary.md")
    expect(page.locator("#map a")).to_have_count(4)
    page.click("text=Add a collection")
    page.fill("[name=name]", "animals")
    page.fill("[name=source]", str(tmp_path / "other"))
    page.click("#add-collection button")
    box = page.get_by_label("Search in animals")
    expect(box).to_be_checked()
    # The count follows by itself, as the new collection is indexed.
    expect(page.locator("#collections tr", has_text="animals")).to_contain_text("1")
    box.uncheck()
    page.click("nav [data-view=search]")
    search(page, "zebras have stripes")
    expect(page.locator(".result .file", has_text="zebra.md")).to_have_count(0)
    page.click("nav [data-view=index]")
    for number in range(800):
        write(f"many/{number}.md", f"# Number {number}\n\nSome text about number {number}.")
    expect(page.get_by_role("row", name="Search in root")).to_contain_text("803")
    seen = page.evaluate_handle(
        """() => { const seen = []; const bar = document.getElementById("progress");
        new MutationObserver(() => seen.push([bar.value, bar.max])).observe(bar, {attributes: true}); return seen; }"""
    )
    page.click("#reindex")
    page.wait_for_function("seen => seen.some(([value, max]) => max > 100 && value < max)", arg=seen)
    page.wait_for_function("seen => seen.at(-1)[0] === seen.at(-1)[1]", arg=seen)
    expect(page.locator("#progress-text")).to_have_text("Up to date")


def test_questions_are_measured_with_two_settings(open_page: Open) -> None:
    page = open_page()
    page.click("nav [data-view=evaluate]")
    page.fill("#questions", "roll back\tdeployment.md\nholidays → handbook.md\nnothing like it\tmissing.md")
    page.click("text=Run")
    rows = page.locator("#ranks tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(0).locator("td").nth(2)).to_have_text("1")
    expect(rows.nth(2).locator("td").nth(3)).to_have_text("not in the first 10")
    expect(page.locator("#evaluation-summary")).to_contain_text("Setting A: 2 of 3 in the first five")
    with page.expect_download() as download:
        page.click("#save")
    assert Path(download.value.path()).read_text(encoding="utf-8").startswith("roll back\tdeployment.md\n")


def test_hostile_documents_run_nothing_and_load_nothing(open_page: Open, write: Write) -> None:
    write("hostile.md", "# Hostile\n\n" + "\n\n".join(PAYLOADS[: len(PAYLOADS) // 2]) + "\n")
    for number, payload in enumerate(PAYLOADS):
        write(f"hostile/{number}.md", f"# Payload {number}\n\n{payload}\n")
    page = open_page()
    page.expose_function("pwned", lambda: pytest.fail("a document ran a script"))
    references = ["hostile.md", *(f"hostile/{number}.md" for number in range(len(PAYLOADS)))]
    page.click("nav [data-view=index]")
    expect(page.locator("#collections tbody")).to_contain_text(str(4 + len(PAYLOADS)))
    for reference in references:
        page.evaluate(
            """reference => { history.pushState(null, "", "/?open=" + encodeURIComponent("root:" + reference));
            dispatchEvent(new PopStateEvent("popstate")); }""",
            reference,
        )
        expect(page.locator("#reader-file")).to_contain_text(f"{reference}:")
        # Whatever could be hovered, focused, toggled or clicked is.
        page.evaluate(
            """() => { for (const each of document.querySelectorAll("#text *")) {
            for (const kind of ["mouseover", "focus", "toggle", "load", "error", "click"]) {
                const event = new Event(kind, { cancelable: true });
                event.preventDefault();
                if (kind !== "click" || !each.closest("a[href]")) each.dispatchEvent(event); } } }"""
        )
        assert page.evaluate("document.querySelectorAll('#text script, #text [style], #text form').length") == 0
        assert page.evaluate("document.getElementById('token').tagName") == "DIALOG"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_use_it(open_page: Open, scheme: str) -> None:
    page = open_page(scheme=scheme, width=390)
    links = {
        "reader": ".result .open >> nth=0",
        "index": "nav [data-view=index]",
        "evaluate": "nav [data-view=evaluate]",
    }
    for view in ("search", *links):
        if view == "search":
            search(page, "deployment").first.wait_for()
        else:
            page.click(links[view])
        expect(page.locator(f"#{view}")).to_be_visible()
        page.evaluate(AXE.read_text(encoding="utf-8"))
        found = page.evaluate("axe.run()")["violations"]
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        assert serious == [], (view, [(each["id"], [node["html"] for node in each["nodes"]]) for each in serious])
        # Nothing is wider than a narrow screen.
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view


def test_another_tab_has_the_token_and_old_answers_are_not_shown_again(open_page: Open, write: Write) -> None:
    first = open_page()
    address = first.url.partition("?")[0]
    second = first.context.new_page()
    second.goto(f"{address}?q=holidays")
    expect(second.locator(".result .preview").first).to_contain_text("Twenty-five")
    second.click("nav [data-view=index]")
    write("handbook.md", "# Handbook\n\n## Holidays\n\nSixty holidays a year.\n")
    expect(second.locator("#queue tbody tr").first).to_contain_text("handbook.md")
    second.go_back()
    expect(second.locator(".result .preview").first).to_contain_text("Sixty")


def test_a_file_leads_the_browser_to_the_page(open_page: Open, docs: Path) -> None:
    page = open_page()
    record = running(load_config(docs_dir=docs))
    assert record
    page.evaluate("sessionStorage.clear()")
    with Client(record.url, token=read_token(load_config(docs_dir=docs))) as client:
        ticket = client.connection.call("make_ticket")
    page.goto(_leading_file(load_config(docs_dir=docs), f"{record.url}/#ticket={ticket}"))
    page.wait_for_url(f"{record.url}/")
    eventually(lambda: bool(page.evaluate("sessionStorage.getItem('annai_token')")))


def test_without_a_ticket_the_page_asks_for_the_token_and_offers_what_that_allows(open_page: Open, docs: Path) -> None:
    page = open_page()
    page.evaluate("sessionStorage.clear()")
    token = (state_of(docs) / "token").read_text().strip()
    with Client(page.url.partition("/?")[0].rstrip("/"), token=token) as client:
        code = client.connection.call("make_ticket")
    for entered in (token, code):
        page.evaluate("sessionStorage.clear()")
        page.evaluate("location.href = '/?q=holidays'")
        page.locator("#token input").fill(entered)
        page.keyboard.press("Enter")
        expect(page.locator(".result .file").first).to_contain_text("handbook.md")
        assert page.evaluate("sessionStorage.getItem('annai_token')") == token
    # Only what a token allows is offered.
    tokens = TokenFile(load_config(docs_dir=docs))
    reader, editor = tokens.add("reader", "read", ()), tokens.add("editor", "admin", ("root",))
    for other, may_change, may_add in ((reader, False, False), (editor, True, False), (token, True, True)):
        page.evaluate("token => sessionStorage.setItem('annai_token', token)", other)
        page.goto(page.url.partition("?")[0] + "?view=index")
        expect(page.get_by_label("Search in root")).to_be_enabled(enabled=may_change)
        expect(page.locator("#reindex")).to_be_visible(visible=may_change)
        expect(page.locator("#adding")).to_be_visible(visible=may_add)

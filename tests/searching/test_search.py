"""Does the right answer come first? What people type, asked of real files with the bundled model."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from annai.answers import Hit, Mode, Query
from annai.config import Config, load_config, override
from annai.engine import Engine
from annai.searching import passages

Write = Callable[[str, str], Path]

FILLER = "This part tells of other things, at some length, so that the page is one of many words. " * 3
JAPANESE_FILLER = "ここには別の話が少し長めに書いてあり、ほかの頁と変わらない普通の文章になっている。" * 3


def settings(docs: Path, engine: str = "sqlite", provider: str = "static") -> Config:
    return override(override(load_config(docs_dir=docs), "store", engine=engine), "embedding", provider=provider)


@pytest.fixture(params=["sqlite", "memory"])
def engine(request: pytest.FixtureRequest, docs: Path) -> Iterator[Engine]:
    with Engine(settings(docs, request.param)) as engine:
        yield engine


def found(engine: Engine, text: str, *, mode: Mode = "hybrid", limit: int = 10) -> list[Hit]:
    engine.refresh()
    return [*engine.search(Query(text, limit=limit, mode=mode)).results]


def first(engine: Engine, text: str, mode: Mode = "hybrid") -> str:
    return found(engine, text, mode=mode)[0].path


@pytest.fixture
def mixed(write: Write) -> None:
    """Pages in Japanese and in English, each about something of its own."""
    write("auth.md", f"# 認証\n\n利用者の認証について。トークンの期限と更新の手順。\n\n{JAPANESE_FILLER}")
    write(
        "backup.md",
        f"# バックアップ\n\n毎晩のバックアップは `pg_dump --format=custom` で。\n\n{JAPANESE_FILLER}",
    )
    write("cooking.md", f"# 料理\n\n朝食の卵料理とパンの焼き方。\n\n{JAPANESE_FILLER}")
    write("deploy.md", f"# Deployment\n\nHow to roll back a bad deployment to the version before.\n\n{FILLER}")
    write("network.md", f"# Network\n\nFirewall rules and open ports of the cluster.\n\n{FILLER}")
    write("garden.md", f"# Garden\n\nRoses, tulips and how to water them.\n\n{FILLER}")


@pytest.mark.usefixtures("mixed")
@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("How do I undo a broken release?", "deploy.md"),
        ("デプロイを前のバージョンに戻す", "deploy.md"),
        ("database backup every night", "backup.md"),
        ("認証", "auth.md"),
        ("卵", "cooking.md"),
        ("ファイアウォール", "network.md"),
        ("roses", "garden.md"),
        ("pg_dump --format=custom", "backup.md"),
        ("pg_dump", "backup.md"),
        ("ｐｇ＿ｄｕｍｐ", "backup.md"),
    ],
)
def test_the_right_page_comes_first_in_either_language(engine: Engine, question: str, path: str) -> None:
    assert first(engine, question) == path


@pytest.mark.parametrize("question", ["what is raylet", "What does a raylet do?", "raylet とは"])
def test_a_question_for_a_definition_is_answered_by_the_glossary(engine: Engine, write: Write, question: str) -> None:
    write("glossary.rst", f"Words\n=====\n\nReplica\n    A copy.\n\nRaylet\n    A process on each node.\n\n{FILLER}")
    write(
        "profile.md",
        f"# Profiles\n\nWhich functions of the raylet take time? Start the raylet with perf. {FILLER}",
    )
    write(
        "failures.md",
        f"# Failures\n\nIf the raylet dies, the raylet of another node takes over. {FILLER}",
    )
    assert first(engine, question) == "glossary.rst"


def test_words_in_the_other_language_find_what_meaning_alone_passes_over(
    engine: Engine, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passages, "CANDIDATES", 2)
    write("policy.md", f"# Handbook\n\n{FILLER} {FILLER} Ask for your vacation early. {FILLER} {FILLER}")
    write("rest.md", "# Rest\n\nTake time off.")
    write("summer.md", "# Summer\n\nLeisure and a break from work.")
    assert "policy.md" in {hit.path for hit in found(engine, "休暇", limit=2)}


def test_a_page_in_the_other_language_is_ranked_by_its_own_opening_too(engine: Engine, write: Write) -> None:
    section = f"## Schedule\n\nThe backup of the database runs every night. {FILLER * 9}"
    write("guide.md", f"# Guide\n\nHow the database is backed up: backups of the database. {FILLER * 9}\n\n{section}")
    write("handbook.md", f"# Handbook\n\nRoses, tulips and the garden. {FILLER * 9}\n\n{section}")
    write("notes.md", "# Notes\n\nHow the database is backed up: backups of the database.")
    openings = {hit.path: hit.reasons.parts["opening"] for hit in found(engine, "データベースのバックアップ")}
    assert openings["notes.md"] > 0 > openings["handbook.md"]
    assert openings["guide.md"] > openings["handbook.md"]
    assert "opening" not in found(engine, "database backups")[0].reasons.parts


@pytest.mark.usefixtures("mixed")
@pytest.mark.parametrize("word", ["手順", "更新", "期", "認証"])
def test_a_short_japanese_query_finds_the_japanese_page_that_holds_it(engine: Engine, word: str) -> None:
    assert first(engine, word) == "auth.md"


def test_code_found_literally_comes_before_what_only_has_its_words(engine: Engine, write: Write) -> None:
    write("a.md", f"# Settings of the server\n\nThe max retry count and the server settings. {FILLER}")
    write("b.md", f"# 雑記\n\n{JAPANESE_FILLER}\n\n最後に `server.max_retry_count` を直す。")
    write("c.md", f"# Retry\n\nmax retry, retry count, max count, server retry. {FILLER}")
    for mode in ("hybrid", "keyword"):
        assert first(engine, "server.max_retry_count", mode) == "b.md"
        assert found(engine, "server.max_retry_count", mode=mode)[0].reasons.parts["phrase"] > 0


@pytest.mark.parametrize("mode", ["hybrid", "keyword"])
def test_an_identifier_finds_its_own_section_before_those_that_mention_it(
    engine: Engine, write: Write, mode: Mode
) -> None:
    write("utilities.md", f"# toRef()\n\nMakes a ref of a value: toRef(), as ref() does. A ref, a ref, ref(). {FILLER}")
    write("core.md", f"# ref()\n\nTakes a value and returns an object. Its type follows from ref(1). {FILLER}")
    assert [hit.path for hit in found(engine, "ref()", mode=mode)][:2] == ["core.md", "utilities.md"]


def test_a_quoted_phrase_comes_before_its_words_apart(engine: Engine, write: Write) -> None:
    write(
        "a.md",
        f"# Dogs and hot days\n\nA dog that is hot drinks; hot hot dog days, a dog and a hot dog's day. {FILLER}",
    )
    write("b.md", f"# Snacks\n\nWe sell one Hot\nDog with mustard. {FILLER}")
    assert first(engine, 'where is a "hot dog with mustard"') == "b.md"
    assert first(engine, '"hot dog with mustard"', "keyword") == "b.md"


def test_a_phrase_that_is_nowhere_is_a_query_like_any_other(engine: Engine, write: Write) -> None:
    write("a.md", "# Apples\n\nAll about apples.")
    assert first(engine, '"apples about all"') == "a.md"
    assert "phrase" not in found(engine, '"apples about all"')[0].reasons.parts


def test_the_section_that_answers_comes_before_its_neighbours(engine: Engine, write: Write) -> None:
    write(
        "guide.md",
        f"# Guide\n\n{FILLER}\n\n## Install\n\nRun the installer. {FILLER}{FILLER}\n\n"
        f"## Remove\n\nHow to uninstall the program again. {FILLER}{FILLER}\n\n## Licence\n\nFree. {FILLER}{FILLER}",
    )
    write("other.md", f"# Other\n\n{FILLER}")
    assert found(engine, "uninstall the program")[0].heading == "Remove"


def test_scores_fall_and_are_the_sum_of_their_parts(engine: Engine, write: Write) -> None:
    for number, word in enumerate(("apples", "pears", "apples and pears", "plums", "cherries")):
        write(f"{number}.md", f"# {word.title()}\n\nAll about {word}. {FILLER}")
    for mode in ("hybrid", "vector", "keyword"):
        hits = found(engine, "pears and apples", mode=mode)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        for hit in hits:
            assert hit.reasons.ranking == pytest.approx(sum(hit.reasons.parts.values()), abs=0.002)


def test_the_bundled_tokens_are_compared_whatever_the_embedder(docs: Path, write: Write) -> None:
    write("a.md", f"# Apples\n\n{FILLER}")
    write("b.md", f"# Pears\n\n{FILLER}")
    with Engine(settings(docs, provider="hashing")) as engine:
        (best, *_) = found(engine, "pears")
    assert best.path == "b.md"
    assert {"meaning", "words", "window"} <= best.reasons.parts.keys()


def test_an_engine_that_keeps_no_tokens_ranks_the_same(
    docs: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, word in enumerate(("apples", "pears", "apples and pears", "plums")):
        write(f"{number}.md", f"---\ndescription: {word}\n---\n# {word.title()}\n\n## More\n\nAbout {word}. {FILLER}")
    with Engine(settings(docs)) as engine:
        kept = [(hit.path, hit.score) for hit in found(engine, "apples or pears")]
        monkeypatch.setattr(engine.store, "tokens", lambda _: {})
        assert [(hit.path, hit.score) for hit in found(engine, "apples or pears")] == kept


def test_a_small_collection_is_not_drowned_by_a_large_one(tmp_path: Path) -> None:
    large, small = tmp_path / "large", tmp_path / "small"
    for folder, pages in ((large, 150), (small, 1)):
        folder.mkdir()
        for number in range(pages):
            (folder / f"{number}.md").write_text(f"# Page {number}\n\nThe server and its settings. {FILLER}")
    (small / "0.md").write_text(f"# Certificates\n\nHow to renew the certificate of the server. {FILLER}")
    with Engine(settings(tmp_path)) as engine:
        engine.add_collection("large", large, "")
        engine.add_collection("small", small, "")
        assert found(engine, "renew the server's certificate")[0].collection == "small"


def test_a_very_long_question_and_one_of_marks_are_answered(engine: Engine, write: Write) -> None:
    write("a.md", f"# Certificates\n\nHow to renew the certificate of the server. {FILLER}")
    write("b.md", f"# Bread\n\nHow to bake bread. {FILLER}")
    assert first(engine, "I wonder how one would renew a certificate of a server, " * 150) == "a.md"
    assert [hit.path for hit in found(engine, "!? …")] == [hit.path for hit in found(engine, "!? …")]


SUBJECT = "Rotating the signing key of the token service takes three steps, and none of them stops a request. " * 12


@pytest.fixture
def one_long_page(write: Write) -> None:
    """A page with six sections on one subject, and four short pages that mention it."""
    parts = "\n\n".join(f"## Step {number}\n\n{SUBJECT}" for number in range(1, 7))
    write("keys.md", f"# Signing keys\n\n{parts}")
    for number in range(4):
        write(f"note{number}.md", f"# Note {number}\n\nRotating the signing key is planned. {FILLER}")


@pytest.mark.usefixtures("one_long_page")
@pytest.mark.parametrize("mode", ["hybrid", "keyword"])
def test_an_answer_holds_different_documents(engine: Engine, mode: Mode) -> None:
    hits = found(engine, "rotating the signing key", mode=mode, limit=5)
    assert sorted(hit.path for hit in hits) == ["keys.md", *(f"note{number}.md" for number in range(4))]
    (long,) = [hit for hit in hits if hit.path == "keys.md"]
    assert len(long.more) == 3
    assert {each.heading for each in long.more} < {f"Step {number}" for number in range(1, 7)} - {long.heading}
    for each in long.more:
        section = engine.locate(each.id).section.section
        assert (section.heading, section.start_line) == (each.heading, each.line)


@pytest.mark.usefixtures("one_long_page")
def test_per_document_says_how_many_sections_are_results(engine: Engine) -> None:
    engine.refresh()
    for per_document, expected in ((2, 2), (4, 4), (0, 6)):
        answer = engine.search("rotating the signing key", limit=20, per_document=per_document)
        own = [hit for hit in answer if hit.path == "keys.md"]
        assert len(own) == expected
        assert len(own[0].more) == min(6 - expected, 3)
        assert not any(hit.more for hit in own[1:])


@pytest.mark.usefixtures("one_long_page")
def test_sections_of_one_depth_are_grouped_by_document_too(engine: Engine) -> None:
    engine.refresh()
    for per_document, expected in ((1, 1), (3, 3)):
        answer = engine.search("rotating the signing key", limit=20, depths=[2], per_document=per_document)
        assert len([hit for hit in answer if hit.path == "keys.md"]) == expected
        assert {hit.depth for hit in answer} == {2}


def test_a_window_is_a_result_with_its_own_lines(docs: Path, write: Write) -> None:
    lines = [f"Line {number} tells of the weather in town {number}." for number in range(1, 600)]
    lines[450] = "The harbour of Kobe closes at night."
    write("log.txt", "\n".join(lines))
    config = override(settings(docs), "chunking", strategy="tokens", size=512, overlap=50)
    with Engine(config) as engine:
        (hit,) = engine.search("harbour of Kobe", limit=5)
        assert "harbour of Kobe" in hit.content
        assert hit.start_line <= 451 <= hit.end_line < hit.start_line + 60
        assert engine.locate(hit.id).text(engine.locate(hit.id).section) == hit.content
        several = engine.search("weather in town", limit=5, per_document=0)
        assert len({(each.start_line, each.end_line) for each in several}) == 5


def test_an_offset_goes_on_where_the_last_answer_ended(engine: Engine, write: Write) -> None:
    for number in range(12):
        write(f"{number}.md", f"# Key {number}\n\n" + "Rotating the signing key. " * (number + 1))
    engine.refresh()
    every = [hit.id for hit in engine.search("rotating the signing key", limit=12)]
    pages = [engine.search("rotating the signing key", limit=5, offset=offset) for offset in (0, 5, 10, 15)]
    assert [[hit.id for hit in page] for page in pages] == [every[:5], every[5:10], every[10:], []]
    assert len({page.total for page in pages}) == 1


def test_the_first_results_do_not_depend_on_the_limit(engine: Engine, write: Write) -> None:
    for number in range(150):
        write(f"page{number:03}.md", f"# Page {number}\n\n{'Kettle and teapot. ' * (1 + number % 7)}\n\n{FILLER}")
    write("large.md", "# Large\n\n" + "\n\n".join(f"## Kettle {part}\n\n{FILLER}" for part in range(120)))
    for question, expected in (("kettle", 100), ("how to fill a teapot", 100), ("やかん", None)):
        few, many = (found(engine, question, limit=limit) for limit in (5, 100))
        assert [hit.id for hit in few] == [hit.id for hit in many[:5]]
        assert [hit.score for hit in few] == [hit.score for hit in many[:5]]
        assert len({hit.path for hit in many}) == (expected or len(many))
        assert [hit.score for hit in many] == sorted((hit.score for hit in many), reverse=True)


LINKS = "\n".join(f"- [How to manage secrets, part {number}](/secrets/{number})" for number in range(1, 12))
SECRET = "A secret holds a password or a key. To manage it, put it in the store and name it in the settings. " * 8


@pytest.fixture
def pages(write: Write) -> None:
    """A page with an opening, two parts and a list of links, and other pages."""
    opening = "A secret is a small piece of data that must not be shown. Programs read it when they start. " * 4
    write("secrets.md", f"# Secrets\n\n{opening}\n\n## Keep it\n\n{SECRET}\n\n## What's next\n\n{LINKS}\n")
    for word in ("network", "storage", "billing"):
        write(f"{word}.md", f"# {word.title()}\n\nAll about {word}. {FILLER}")


@pytest.mark.usefixtures("pages")
def test_a_list_of_links_gives_way_to_the_section_that_says_it(engine: Engine) -> None:
    (best, *_) = found(engine, "how to manage secrets in the store")
    assert (best.path, best.heading) == ("secrets.md", "Keep it")
    every = [*engine.search("how to manage secrets", per_document=0, limit=20)]
    assert "What's next" in {hit.heading for hit in every}


def test_a_page_of_links_is_shown_at_its_own_address(engine: Engine, write: Write) -> None:
    # Of a document of one passage, the keys that follow its root's are the next document's.
    links = "\n".join(f"- [Cafeteria menu {name}](https://example.org/{name})" for name in ("a", "b", "c", "d", "e"))
    write("public/a-links.md", f"# Cafeteria menu sources\n\nWhere the cafeteria menu comes from.\n\n{links}\n")
    sections = "\n\n".join(f"## Part {number}\n\n{FILLER * 12}" for number in (1, 2))
    write("secret/b-payroll.md", f"# Payroll\n\nWhat everybody earns.\n\n{sections}\n")
    engine.refresh()
    for paths in ((), ("public",)):
        hit = engine.search("cafeteria menu sources", paths=paths)[0]
        assert (hit.path, hit.title, hit.start_line) == ("public/a-links.md", "Cafeteria menu sources", 1)
        assert "earns" not in hit.content + hit.preview


@pytest.mark.usefixtures("pages")
@pytest.mark.parametrize("question", ["what is a secret?", "secrets", "Secrets とは"])
def test_a_question_about_a_page_is_answered_by_its_opening(engine: Engine, question: str) -> None:
    (best, *_) = found(engine, question)
    assert (best.path, best.section_number) == ("secrets.md", (0,))


@pytest.mark.usefixtures("mixed")
def test_the_score_tells_an_answer_from_a_guess(engine: Engine) -> None:
    engine.refresh()
    for mode in ("hybrid", "vector", "keyword"):
        for question in ("How do I roll back a bad deployment?", "バックアップの手順", "roses and tulips"):
            answer = engine.search(question, mode=mode)
            assert answer.confident, (mode, question)
            assert answer[0].score > 0.5, (mode, question)
    for question in ("zzzzqqqq", "quantum chromodynamics of gluons", "源氏物語の作者は誰ですか"):
        answer = engine.search(question)
        assert not answer.confident, question
        assert answer.matching == 0
        assert all(hit.score < 0.25 for hit in answer)


def test_a_result_that_holds_every_word_is_a_match(engine: Engine, write: Write) -> None:
    write("a.md", "# Title\n\nSome apple text.")
    write("b.md", "# Other\n\nSome pear text.")
    assert engine.search("apples").confident
    assert not engine.search("apples oranges melons cherries").confident


def test_what_joins_words_in_japanese_is_no_word_that_a_match_must_hold(engine: Engine, write: Write) -> None:
    write("経費精算.md", "# 経費\n\n出張の経費は月末までに申請します。\n\n## 上限\n\n宿泊は一泊一万二千円までです。\n")
    engine.refresh()
    assert engine.search("宿泊の上限").confident
    assert not engine.search("会議の上限").confident


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
def test_what_scores_alike_comes_by_path_however_it_was_indexed(engine: Engine, write: Write, mode: Mode) -> None:
    names = ["c.md", "a.md", "b.md"]
    for name in names:
        write(name, "# Same\n\nThe apple is red.\n")
        engine.refresh()
    assert [hit.path for hit in found(engine, "apple", mode=mode, limit=20)] == sorted(names)

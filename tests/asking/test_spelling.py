"""Are typing errors put right, and is everything else left alone? Asked of real files, as they are searched."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from annai.answers import Mode, Query, Where
from annai.asking.spelling import apply_corrections, find_corrections
from annai.config import load_config
from annai.engine import Engine
from tests.conftest import Annai

Write = Callable[[str, str], Path]


@pytest.fixture
def project(engine: Engine, write: Write) -> Engine:
    write("config.md", "# Configuration\n\nThe configuration of the cluster. 設定はkubernetesのconfigurationで行う。")
    write("deploy.md", "# Deployment\n\nThree deployments of kubernetes, and how to widen them with `getNamespaces()`.")
    write("sample.md", "# Sample\n\nA sample of small things that are scaled, and a snake_cased name.")
    engine.refresh()
    return engine


def asked(project: Engine, text: str, where: Where | None = None) -> dict[str, str]:
    return find_corrections(project.store, text, where or Where())


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("configuraton", "configuration"),
        ("configurationn", "configuration"),
        ("configurqtion", "configuration"),
        ("configuratoin", "configuration"),
        ("ocnfiguration", "configuration"),
        ("kuberntes", "kubernetes"),
        ("deployyments", "deployments"),
        ("Kuberntes", "Kubernetes"),
        ("KUBERNTES", "KUBERNETES"),
        ("namesspaces", "namespaces"),
    ],
)
def test_a_word_with_one_slip_becomes_one_that_the_documents_hold(project: Engine, typed: str, meant: str) -> None:
    assert asked(project, f"the {typed} of it") == {typed: meant}
    assert asked(project, f"クラスタの{typed}を変える") == {typed: meant}


@pytest.mark.parametrize(
    "text",
    [
        "configuration and deploying",
        '"configuraton" and “kuberntes”',
        "`configuraton`",
        "configuraton.yaml in /etc/kuberntes/",
        "--configuraton",
        "configuraton_file",
        "getConfiguraton",
        "kuberntes9",
        "smpl",
        "Biden",
        "smallest",
        "a simple word",
        "quite something else entirely",
        "構成の変更",
        "ｃｏｎｆｉｇｕｒａｔｏｎ",
        "there doesn't",
        "configuraton kuberntes deploymnts smaple",
        "x" * 9_000,
        "zzzzzzzzzz zzzzqqqq",
        "!? …",
    ],
    ids=lambda text: text[:30],
)
def test_everything_else_is_left_as_it_was_typed(project: Engine, text: str) -> None:
    assert asked(project, text) == {}
    assert apply_corrections(text, {}) == text


@pytest.fixture
def app(engine: Engine, write: Write) -> Engine:
    write("hooks.md", "# useEffect\n\nCall `useEffect()` after `useState`, then `kubectl apply` and set log_dir.")
    write("log.md", "# サンプリング\n\nログのサンプリングと、デプロイのロールバック。")
    write("net.md", "# クバネティス\n\nクバネティスのネットワークポリシー。")
    write("login.md", "# Authentication\n\nAuthentication of users, and internationalization of the login page.")
    engine.refresh()
    return engine


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("useEfect", "useEffect"),
        ("useSate", "useState"),
        ("useSate()", "useState"),
        ("usestate", "useState"),
        ("log_dri", "log_dir"),
        ("aply", "apply"),
        ("サンプリグ", "サンプリング"),
        ("サンプリンング", "サンプリング"),
        ("サプンリング", "サンプリング"),
        ("ザンプリング", "サンプリング"),
        ("サーンプリング", "サンプリング"),
        ("ロールバッグ", "ロールバック"),
        ("ロルバック", "ロールバック"),
        ("ロールバツク", "ロールバック"),
        ("クーバネティス", "クバネティス"),
        ("ネットワクポリシー", "ネットワークポリシ"),
        ("authentcaton", "authentication"),
        ("Authetnicaiton", "Authentication"),
    ],
)
def test_names_short_words_katakana_and_two_slips_are_corrected_too(app: Engine, typed: str, meant: str) -> None:
    assert asked(app, f"{typed} を使う") == {typed.removesuffix("()"): meant}
    assert asked(app, f"{meant} を使う") == {}


@pytest.mark.parametrize(
    "text",
    [
        "useThing",
        "use.Efect",
        "`useEfect`",
        '"サンプリグ"',
        "サンド",
        "マイクロサービス",
        "APLY",
        "aqqy",
        "log-dri",
        "AWS_KEY",
        "apple",
    ],
)
def test_what_is_no_slip_is_left_as_it_was_typed(app: Engine, text: str) -> None:
    assert asked(app, text) == {}


def test_a_rare_typo_of_the_documents_is_not_what_was_meant(engine: Engine, write: Write) -> None:
    for number in range(20):
        write(f"{number}.md", "About Kubernetes.")
    write("last.md", "About Kuberentes.")
    engine.refresh()
    assert asked(engine, "Kuberenets") == {"Kuberenets": "Kubernetes"}


def test_known_words_cost_one_lookup(app: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    holding, calls = app.store.holding, 0

    def counted(words: Sequence[str]) -> dict[str, int]:
        nonlocal calls
        calls += 1
        return holding(words)

    monkeypatch.setattr(app.store, "holding", counted)
    assert asked(app, "サンプリング of useState and the authentication") == {}
    assert calls == 1


def test_all_but_the_word_stays_as_it_is(project: Engine) -> None:
    text = '  Kuberntes\tの "kuberntes" と  kuberntes_x、kuberntes?\n'
    corrected = asked(project, text)
    assert apply_corrections(text, corrected) == '  Kubernetes\tの "kuberntes" と  kuberntes_x、kubernetes?\n'


def test_the_word_that_most_passages_hold_is_meant_and_always_the_same(engine: Engine, write: Write) -> None:
    for number, word in enumerate(("packet", "packet", "packed", "jacket")):
        write(f"{number}.md", f"# Page {number}\n\nIt is {word}.")
    engine.refresh()
    assert {asked(engine, "packef")["packef"] for _ in range(3)} == {"packet"}


def test_a_word_is_meant_only_if_it_is_written_where_one_looks(project: Engine) -> None:
    assert asked(project, "configuraton", Where(paths=("config.md",))) == {"configuraton": "configuration"}
    assert asked(project, "configuraton", Where(paths=("sample.md",))) == {}


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
def test_the_answer_is_that_of_the_word_that_was_meant(project: Engine, mode: Mode) -> None:
    wrong, right = (
        project.search(Query(text, mode=mode)) for text in ("cluster configuraton", "cluster configuration")
    )
    assert wrong.query == "cluster configuraton"
    assert wrong.corrected == {"configuraton": "configuration"}
    assert right.corrected == {}
    assert wrong.results == right.results


def test_collections_with_different_models_tell_it_too(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text(f"# Configuration {name}\n\nThe configuration.")
    (tmp_path / "annai.toml").write_text(
        '[embedding]\nprovider = "hashing"\n[collections.two.embedding]\nprovider = "static"\n'
    )
    with Engine(load_config(docs_dir=tmp_path)) as engine:
        for name in ("one", "two"):
            engine.add_collection(name, tmp_path / name, "")
        engine.refresh()
        answer = engine.search(Query("configuraton"))
    assert {hit.collection for hit in answer.results} == {"one", "two"}
    assert answer.corrected == {"configuraton": "configuration"}


def test_the_program_says_what_it_searched_for_and_marks_it(annai: Annai, write: Write) -> None:
    write("a.md", "# Title\n\nThe configuration of it.")
    said = "No document holds “configuraton”; searched for “configuration”."
    for form in ("text", "markdown"):
        assert said in annai("search", "configuraton", "--format", form).stdout
    assert annai("search", "configuraton", "--format", "files").stdout == "a.md:1\n"
    answer = json.loads(annai("search", "configuraton", "--format", "json").stdout)
    assert (answer["query"], answer["corrected"]) == ("configuraton", {"configuraton": "configuration"})
    config = annai.folder / "annai.toml"
    config.write_text(config.read_text() + '[display]\ncolor = "always"\n')
    assert "\x1b[1mconfiguration\x1b[0m" in annai("search", "configuraton").stdout

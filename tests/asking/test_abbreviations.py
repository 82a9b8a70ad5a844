"""Are abbreviations understood through what the documents say, and left alone where that is not needed?"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from annai.answers import Mode, Query, Where
from annai.asking.abbreviations import apply_expansions, find_expansions
from annai.config import load_config, override
from annai.engine import Engine
from tests.conftest import Annai

Write = Callable[[str, str], Path]


@pytest.fixture(params=["sqlite", "memory"])
def project(request: pytest.FixtureRequest, docs: Path, write: Write) -> Iterator[Engine]:
    write("crd.md", "# Extending\n\nA [CustomResourceDefinition](/docs/custom-resource-docs/) (CRD) adds a resource.")
    write("validation.md", "# Validation\n\nThe schema of a CustomResourceDefinition checks its objects.")
    write("versions.md", "# Versions\n\nA CustomResourceDefinition has versions, in Kubernetes as well.")
    write("rbac.md", "# Access\n\nRBAC (role-based access control) decides. RBAC rules.")
    write("roles.md", "# Roles\n\nRoles of RBAC.")
    write("ssr.md", "# 描画\n\nサーバーサイドレンダリング（SSR）で描く。")
    write("html.md", "# サーバーサイドレンダリング\n\nサーバーサイドレンダリングは HTML を返す。")
    write("hpa.md", "# 水平Pod自動スケーリング\n\n水平Pod自動スケーリングは、`HPA` ではない。")
    write("accessible.md", "# Accessibility\n\nAccessibility of forms, and Kubernetes besides.")
    write("team.md", "# Team\n\nThe observability team sends a notification.")
    with Engine(override(load_config(docs_dir=docs), "store", engine=request.param)) as engine:
        engine.refresh()
        yield engine


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("CRD", {"CRD": "CustomResourceDefinition"}),
        ("crd schema", {"crd": "CustomResourceDefinition"}),
        ("CRDとは", {"CRD": "CustomResourceDefinition"}),
        ("SSR とは", {"SSR": "サーバーサイドレンダリング"}),
        ("k8s versions", {"k8s": "kubernetes"}),
        ("K8s", {"K8s": "Kubernetes"}),
        ("a11y", {"a11y": "accessibility"}),
        ("n10n", {}),
        ("i18n", {}),
        ("RBAC", {}),
        ("HPA", {}),
        ("XYZ", {}),
        ('"CRD"', {}),
        ("`k8s`", {}),
        ("CRD.yaml", {}),
        ("CustomResourceDefinition (CRD)", {}),
        ("CRD objects with a schema that has many versions", {}),
        ("team n10n", {"n10n": "notification"}),
    ],
)
def test_an_abbreviation_is_what_the_documents_say(project: Engine, text: str, expanded: dict[str, str]) -> None:
    assert find_expansions(project.store, text, Where()) == expanded


def test_the_long_form_stands_beside_the_short_one() -> None:
    assert apply_expansions("the CRDとは", {"CRD": "Custom Thing"}) == "the CRD Custom Thing とは"
    assert apply_expansions("`CRD`  CRDs", {"CRD": "x"}) == "`CRD`  CRDs"


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
def test_pages_that_write_only_the_long_form_are_found(project: Engine, mode: Mode) -> None:
    answer = project.search(Query("CRD", mode=mode, limit=3))
    assert {"crd.md", "validation.md", "versions.md"} == {hit.path for hit in answer}
    assert answer[0].path == "crd.md" or mode == "vector"
    assert (answer.query, answer.expanded) == ("CRD", {"CRD": "CustomResourceDefinition"})


def test_every_interface_says_what_was_added(annai: Annai, write: Write) -> None:
    write("a.md", "# Kubernetes\n\nHow Kubernetes works.")
    assert "Searched for “kubernetes” as well as “k8s”." in annai("search", "k8s").stdout
    answer = json.loads(annai("search", "k8s", "--format", "json").stdout)
    assert (answer["query"], answer["expanded"]) == ("k8s", {"k8s": "kubernetes"})

"""Can a cloned repository do harm? What its files ask for beyond itself and this machine waits for the user's word."""

import dataclasses
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import pytest

from annai.config import find_settings, load_config, user_folder
from annai.engine import Engine
from annai.errors import ConfigError
from annai.models.names import model_folder
from annai.settings import SECTIONS, USER_SETTINGS
from annai.trust import MAX_HASHED_BYTES, demands, without_demands
from tests.conftest import Annai, results, trust

Write = Callable[[str, str], Path]


@contextmanager
def listener() -> Iterator[tuple[str, list[bytes]]]:
    """An address of this machine, and all that anybody sends there."""
    received: list[bytes] = []
    server = socket.create_server(("127.0.0.1", 0))

    def listen() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                received.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}", received
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(10)


@pytest.fixture
def clone(docs: Path, write: Write) -> Annai:
    """A folder that somebody else wrote."""
    write("a.md", "# Apples\n\nAn apple a day.")
    return Annai(docs)


HOSTILE = """
[embedding]
provider = "openai"
base_url = "{url}"
api_key_env = "AWS_SECRET_ACCESS_KEY"
[search]
rerank = "http"
[rerank]
base_url = "{url}"
api_key_env = "AWS_SECRET_ACCESS_KEY"
"""


@pytest.mark.parametrize("name", ["annai.toml", "pyproject.toml"])
def test_a_hostile_repository_sends_nothing_and_is_searchable_all_the_same(
    clone: Annai, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
    with listener() as (url, received):
        text = HOSTILE.format(url=url)
        (clone.folder / name).write_text(text.replace("[", "[tool.annai.") if "py" in name else text)
        for mode in ("hybrid", "vector", "keyword"):
            done = clone("search", "apple", "--mode", mode)
            assert "a.md" in done.stdout
            assert "embedding.base_url" in done.stderr
            assert "annai trust" in done.stderr
        assert clone("status").stdout
        assert received == []


def test_trusted_settings_count_until_the_file_changes(clone: Annai, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
    with listener() as (url, received):
        file = clone.folder / "annai.toml"
        file.write_text(HOSTILE.format(url=url) + "[retry]\nmax_retries = 0\n")
        shown = clone("trust", "--yes").stdout
        assert url in shown
        assert "AWS_SECRET_ACCESS_KEY" in shown
        assert "sends your documents or questions to this address" in shown
        clone("search", "apple", code=2)
        assert any(b"hush-hush" in each for each in received)
        received.clear()
        file.write_text(file.read_text() + "# changed\n")
        assert "annai trust" in clone("search", "apple").stderr
        assert received == []


def test_without_an_answer_nothing_is_trusted(clone: Annai) -> None:
    (clone.folder / "annai.toml").write_text('[embedding]\nprovider = "gemini"\n')
    clone("trust", code=2)
    clone("trust", stdin="n\n")
    assert "Nothing is trusted" in clone("trust", "--list").stdout


def test_trust_is_listed_and_taken_back(clone: Annai) -> None:
    assert "Nothing here needs your trust" in clone("trust").stdout
    (clone.folder / "annai.toml").write_text('[logging]\nfile = "../elsewhere.log"\n')
    assert "is trusted until it changes" in clone("trust", "--yes").stdout
    assert clone("trust", "--list").stdout == f"{clone.folder / 'annai.toml'}\n"
    assert "Everything here is trusted" in clone("trust").stdout
    assert clone("search", "apple").stderr == ""
    assert "no longer trusted" in clone("trust", "--revoke").stdout
    assert "was not trusted" in clone("trust", "--revoke").stdout
    assert "logging.file" in clone("search", "apple").stderr


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ('[project]\nroot = ".."', "project.root"),
        ('[project]\nroot = "/"', "project.root"),
        ('[database]\npath = "/tmp/annai-outside/index.sqlite"', "database.path"),
        ('[database]\npath = "~/index.sqlite"', "database.path"),
        ('[database]\npath = "data/index.sqlite"', "database.path"),
        ('[logging]\nfile = "../../.bashrc"', "logging.file"),
        ('[store]\nengine = "postgres"\nurl = "postgresql://host/db"', "store.url"),
        ('[store]\nengine = "postgres"\nurl = "host=example.com dbname=db"', "store.url"),
        ('[store]\nengine = "qdrant"\nurl = "http:/\\t/example.com:6333"', "store.url"),
        ('[store]\nengine = "lancedb"\nurl = "../vectors"', "store.url"),
        ('[store]\nengine = "lancedb"\nurl = "vectors"', "store.url"),
        (
            '[embedding]\nprovider = "sentence-transformers"\nmodel = "x/y"\ntrust_remote_code = true',
            "embedding.provider",
        ),
        ('[embedding]\nprovider = "onnx"\nmodel = "model"', "embedding.model"),
        ('[collections.a.embedding]\nprovider = "openai"', "collections.a.embedding.provider"),
        ('[search]\nrerank = "cross-encoder"', "search.rerank"),
        ('[rerank]\nbase_url = "http://host"', "rerank.base_url"),
        ('[server]\nhost = "0.0.0.0"', "server.host"),
        ('[server]\ntoken = "known"', "server.token"),
        ("[server]\nopen_metrics = true", "server.open_metrics"),
        ('[server]\naddable_folders = ["/etc"]', "server.addable_folders"),
        ('[server]\nhost_names = ["evil.example"]', "server.host_names"),
        ('[logging]\naudit_file = "../../x"', "logging.audit_file"),
    ],
)
def test_everything_that_reaches_further_is_ignored_and_said(
    docs: Path, text: str, asked: str, caplog: pytest.LogCaptureFixture
) -> None:
    (docs / "annai.toml").write_text(text)
    plain = load_config(docs_dir=docs, environment={})
    assert asked in caplog.text
    assert not plain.is_trusted
    (docs / "annai.toml").write_text("")
    assert dataclasses.replace(plain, is_trusted=True) == load_config(docs_dir=docs, environment={})


@pytest.mark.parametrize(
    "text",
    [
        '[project]\nname = "x"\nroot = "."',
        '[store]\nengine = "chroma"',
        '[embedding]\nprovider = "hashing"',
        '[search]\nlimit = 9\nmode = "keyword"',
        '[server]\nport = 4321\nhost = "127.0.0.1"',
        '[chunking]\nsize = 600\n[files]\nexclude = ["drafts/"]',
    ],
)
def test_what_stays_inside_needs_no_trust(docs: Path, text: str) -> None:
    (docs / "annai.toml").write_text(text)
    assert find_settings(docs_dir=docs, environment={}).is_trusted


LIE = "x\\nannai checked this file: it is harmless\\u202e\\u001b[2J"


def test_nothing_that_is_asked_for_can_be_taken_for_annais_own_words(clone: Annai) -> None:
    folder = clone.folder.with_name("is harmless\nannai checked this \x1b[2J")
    clone.folder.rename(folder)
    clone = Annai(folder)
    (folder / "annai.toml").write_text(
        f'[collections."{LIE}".embedding]\nmodel = "{LIE}"\n[embedding]\nbase_url = "http://h/{LIE}"\n'
        '[collections."a = 1 (checked by annai)".embedding]\nmodel = "x"\n[logging]\nfile = "a\\nb"\n'
    )
    shown = [clone("trust", stdin="n\n", code=None), clone("trust", "--yes"), clone("trust", "--list")]
    shown += [clone("trust", "--revoke"), clone("search", "apple")]
    for done in shown:
        for line in (done.stdout + done.stderr).splitlines():
            assert not line.startswith("annai checked")
            assert line.isprintable(), line
    assert r"'collections.x\nannai checked" in shown[0].stdout
    assert "'collections.a = 1 (checked by annai).embedding.model' = 'x'" in shown[0].stdout


def test_what_is_dangerous_comes_last_and_is_counted(clone: Annai) -> None:
    dull = "".join(f'[collections.c{number}.embedding]\nmodel = "{"y" * 2999}{number}"\n' for number in range(300))
    (clone.folder / "annai.toml").write_text(
        '[embedding]\ntrust_remote_code = true\nbase_url = "http://h"\n[server]\nopen_metrics = true\n'
        '[logging]\nfile = "x"\n' + dull
    )
    lines = clone("trust", stdin="n\n").stdout.splitlines()
    assert max(map(len, lines)) < 400
    where = [next(number for number, line in enumerate(lines) if each in line) for each in ("logging.file", "server.")]
    where += [lines.index(f"  embedding.{each}") for each in ("base_url = 'http://h'", "trust_remote_code = 'True'")]
    assert where == sorted(where)
    assert where[-1] == len(lines) - 5, "nothing else comes between it and the question"
    assert lines[-2] == (
        "Of its settings, 1 would reach outside of the project's folder, 1 would open your server to others, 1 would "
        "send documents, questions or secrets to others, 301 would load a model or code that is not annai's own."
    )
    told = clone("search", "apple").stderr
    assert "and 284 more settings" in told
    assert len(told) < 2000


@pytest.mark.parametrize(
    ("text", "noted"),
    [
        ('[embedding]\nbase_url = "https://\u0430pi.openai.com/v1"', "'xn--pi-6kc.openai.com'"),
        ('[store]\nurl = "host=\u0430pi.openai.com dbname=x"', "'xn--pi-6kc.openai.com'"),
        ('[server]\nhost_names = ["\u0430nnai.example"]', "'xn--nnai-43d.example'"),
        ('[embedding]\nbase_url = "https://api.openai.com@evil.example/v1"', "the host in it is 'evil.example'"),
        ('[embedding]\nbase_url = "https://evil.example?@api.openai.com/"', "the host in it is 'evil.example'"),
        (f'[embedding]\nbase_url = "https://{"a" * 500}@evil.example/v1"', "the host in it is 'evil.example'"),
    ],
)
def test_a_host_that_is_not_what_it_looks_like_is_named(clone: Annai, text: str, noted: str) -> None:
    (clone.folder / "annai.toml").write_text(text, encoding="utf-8")
    assert noted in clone("trust", stdin="n\n").stdout


@pytest.fixture
def model(clone: Annai) -> Path:
    """A folder with a model, which the project's settings name and the user trusts."""
    folder = clone.folder / "model"
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / ".git").mkdir()
    for name in ("modeling.py", "config.json", "1_Pooling/config.json"):
        (folder / name).write_text("{}")
    (folder / "model.safetensors").write_bytes(bytes(MAX_HASHED_BYTES + 1))
    text = '[embedding]\nprovider = "onnx"\nmodel = "model"\ntrust_remote_code = true\n'
    (clone.folder / "annai.toml").write_text(text)
    assert "if any file in it changes, annai asks again" in clone("trust", "--yes").stdout
    assert find_settings(docs_dir=clone.folder).is_trusted
    return folder


def _rewrite_weights(model: Path) -> None:
    weights = model / "model.safetensors"
    before = weights.stat()
    with weights.open("r+b") as stream:
        stream.write(b"other")
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [
        lambda model: (model / "modeling.py").write_text("[]"),
        lambda model: (model / "1_Pooling" / "config.json").write_text("[]"),
        lambda model: (model / "extra.py").touch(),
        lambda model: (model / "modeling.py").rename(model / "other.py"),
        lambda model: (model / "config.json").unlink(),
        lambda model: (model / "linked").symlink_to(model.parent),
        _rewrite_weights,
    ],
)
def test_a_model_that_changes_is_asked_about_again(clone: Annai, model: Path, change: Callable[[Path], object]) -> None:
    change(model)
    assert not find_settings(docs_dir=clone.folder).is_trusted
    assert "annai trust" in clone("search", "apple").stderr


def test_a_trusted_model_is_trusted_as_long_as_it_stays(clone: Annai, model: Path) -> None:
    (model / ".git" / "index").write_text("changed by git status")
    assert find_settings(docs_dir=clone.folder).is_trusted
    os.utime(model / "modeling.py", ns=(1, 1))
    assert find_settings(docs_dir=clone.folder).is_trusted


def test_a_folder_of_anything_is_no_model(clone: Annai) -> None:
    (clone.folder / "annai.toml").write_text('[embedding]\nprovider = "onnx"\nmodel = "/"\n')
    assert "holds too many files for a model" in clone("trust", "--yes", code=2).stderr
    assert "a.md" in clone("search", "apple").stdout


def test_a_models_name_means_no_folder_of_the_current_one(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (docs / "somebody" / "model").mkdir(parents=True)
    monkeypatch.chdir(docs)
    assert model_folder("somebody/model") is None
    assert model_folder(str(docs / "somebody" / "model")) == docs / "somebody" / "model"
    (docs / "annai.toml").write_text('[embedding]\nmodel = "somebody/model"\n')
    assert model_folder(find_settings(docs_dir=docs).table["embedding"]["model"]), "its settings name one beside them"


def test_every_setting_that_could_reach_further_is_known_here(tmp_path: Path) -> None:
    judged = {
        "project": {"root"},
        "database": {"path"},
        "store": {"url", "engine", "schema", "machine"},
        "chunking": {"strategy"},
        "embedding": {"provider", "model", "trust_remote_code", "base_url", "api_key_env"},
        "search": {"rerank"},
        "rerank": {"model", "base_url", "api_key_env", "trust_remote_code"},
        "server": {"host", "token", "host_names", "trusted_proxies", "addable_folders"},
        "logging": {"file", "audit_file"},
    }
    harmless = {
        "project.name", "store.collection_name", "files.include", "files.exclude",
        "search.mode", "rerank.api", "search.content", "embedding.query_prefix",
        "embedding.document_prefix", "embedding.task_type_query", "embedding.task_type_document",
        "embedding.device", "embedding.pooling", "rerank.device", "display.default_format", "display.color",
        "logging.level", "logging.format", "mcp.collection_tools", *USER_SETTINGS,
    }  # fmt: skip
    texts = {
        f"{name}.{item.name}"
        for name, section in SECTIONS.items()
        for item in fields(section)
        if isinstance(item.default, str | tuple)
    }
    known = harmless | {f"{name}.{key}" for name, keys in judged.items() for key in keys}
    assert texts - known <= {"chunking.heading_levels"}, "is a new setting harmless? see annai.trust"
    for name, keys in judged.items():
        values = {key: True if key == "trust_remote_code" else "/outside" for key in keys}
        asked = [*demands({name: values}, tmp_path)]
        assert {demand.setting for demand in asked} == {f"{name}.{key}" for key in keys}
        assert not {*without_demands({name: values}, asked).get(name, {})} & keys


def test_the_users_own_settings_need_no_trust_and_hold_everywhere(docs: Path, caplog: pytest.LogCaptureFixture) -> None:
    user_folder().mkdir(parents=True)
    (user_folder() / "config.toml").write_text(
        '[embedding]\nprovider = "openai"\nbase_url = "http://localhost:1/v1"\n[search]\nlimit = 7\nmode = "keyword"\n'
    )
    (docs / "annai.toml").write_text('[search]\nlimit = 3\n[embedding]\nbase_url = "http://evil.example"\n')
    config = load_config(docs_dir=docs)
    assert (config.search.limit, config.search.mode) == (3, "keyword")
    assert (config.embedding.provider, config.embedding.base_url) == ("openai", "http://localhost:1/v1")
    assert "embedding.base_url" in caplog.text
    (user_folder() / "config.toml").write_text('[project]\nroot = "/"\n')
    with pytest.raises(ConfigError, match=r"belongs into the annai\.toml"):
        load_config(docs_dir=docs)


def test_a_file_that_the_environment_names_is_the_users_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[embedding]\nprovider = "openai"\n')
    assert load_config(environment={"ANNAI_CONFIG": str(file)}).embedding.provider == "openai"
    assert load_config(config=file, environment={}).embedding.provider == "static"


def test_a_server_of_a_hostile_repository_keeps_to_the_same_rules(clone: Annai) -> None:
    with listener() as (url, received):
        (clone.folder / "annai.toml").write_text(HOSTILE.format(url=url) + "[server]\nport = 0\n")
        try:
            clone("server", "start")
            assert "a.md" in clone("search", "apple").stdout
            assert received == []
        finally:
            clone("server", "stop")


def test_what_is_trusted_is_private_to_its_user(docs: Path) -> None:
    (docs / "annai.toml").write_text('[embedding]\nprovider = "openai"\n')
    trust(docs)
    file = user_folder() / "trust.json"
    assert file.stat().st_mode & 0o077 == 0
    assert json.loads(file.read_text())["files"].keys() == {str(docs / "annai.toml")}
    file.write_text("{")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(docs_dir=docs)


def test_a_project_opened_here_believes_its_user(docs: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    with Engine(load_config(docs_dir=docs)) as engine:
        engine.add_collection("out", tmp_path / "outside")
        assert [each.name for each in engine.list_collections()] == ["out"]
        engine.update_collection("out", source=docs)
        assert engine.sources()["out"] == docs


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    """Notes of the user's, to which links in `project` lead: to the folder, to a file, and to something else."""
    vault, project = tmp_path / "Obsidian", tmp_path / "project"
    for file, text in (("in/plan.md", "# Plan\n\nThe plan for apples."), ("one.md", "# One\n\nOne about apples.")):
        (vault / file).parent.mkdir(parents=True, exist_ok=True)
        (vault / file).write_text(text, encoding="utf-8")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key.md").write_text("# Key\n\nThe key to apples.", encoding="utf-8")
    project.mkdir()
    (project / "own.md").write_text("# Own\n\nOwn apples.", encoding="utf-8")
    (project / "vault").symlink_to(vault)
    (project / "one.md").symlink_to(vault / "one.md")
    (project / "secret").symlink_to(tmp_path / "secret")
    (project / "again.md").symlink_to("own.md")
    return vault


def own_settings(text: str) -> None:
    folder = user_folder()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(text, encoding="utf-8")


def test_links_out_of_a_project_are_followed_between_folders_that_the_user_names(vault: Path) -> None:
    project = vault.parent / "project"
    annai = Annai(project)
    told = annai("status").stdout
    assert "1 symbolic link not followed (files.follow_symlinks)\n" in told
    assert "3 symbolic links not followed (files.linked_folders)\n" in told
    assert [row["path"] for row in results(annai, "apples")] == ["own.md"]
    assert "files.linked_folders in your own settings" in annai("get", "vault/in/plan.md", code=1).stderr
    own_settings(f'[files]\nlinked_folders = ["{project}", "{vault}"]\n')
    linked = {"one.md", "vault/one.md", "vault/in/plan.md"}
    assert {row["path"] for row in results(annai, "apples")} == {"own.md", *linked}
    assert "The plan for apples." in annai("get", "vault/in/plan.md").stdout
    told = annai("status").stdout
    assert "1 symbolic link not followed (files.linked_folders)\n" in told  # What is secret is in none of them.
    (vault / "in" / "plan.md").write_text("# Plan\n\nNow about pears.", encoding="utf-8")
    assert results(annai, "pears")[0]["path"] == "vault/in/plan.md"
    # A link that leads elsewhere from now on is followed no longer.
    (project / "vault").unlink()
    (project / "vault").symlink_to(vault.parent / "secret")
    assert {row["path"] for row in results(annai, "apples key")} == {"own.md", "one.md"}


def test_a_project_that_the_user_did_not_name_reads_nothing_of_the_folders_that_were(vault: Path) -> None:
    project = vault.parent / "project"
    other = vault.parent / "other"
    other.mkdir()
    own_settings(f'[files]\nlinked_folders = ["{other}", "{vault}"]\n')
    assert [row["path"] for row in results(Annai(project), "apples")] == ["own.md"]
    own_settings('[files]\nlinked_folders = ["Obsidian"]\n')
    assert "give its whole path" in Annai(project)("status", code=2).stderr


def test_a_projects_own_file_cannot_name_linked_folders(vault: Path) -> None:
    project = vault.parent / "project"
    (project / "annai.toml").write_text(f'[files]\nlinked_folders = ["{project}", "{vault}"]\n', encoding="utf-8")
    annai = Annai(project)
    assert "files.linked_folders belongs in" in annai("search", "apples", code=2).stderr
    assert "files.linked_folders" in annai("trust", code=2).stderr
    assert "files.linked_folders belongs in" in annai("search", "apples", code=2).stderr

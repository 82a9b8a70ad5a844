"""Can a team run annai as docs/team.md says? Its recipes on a real PostgreSQL, and the files in deploy/."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import kubernetes_validate
import psycopg
import pytest
import yaml

from annai.config import Config, load_config
from annai.engine import Engine
from annai.errors import StoreReadOnly
from annai.serving.client import Client
from annai.stores.postgres import graphs, nearest
from tests.postgresql import Cluster, running_cluster

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
PAGE = (ROOT / "docs" / "team.md").read_text(encoding="utf-8")
FILES = 30
KUBERNETES = "1.30"
"""The oldest version that the manifests are checked against."""
WRITER, READER = "of-the-indexer", "of-the-servers"
"""Passwords of a database that lives for seconds."""

on_unix = pytest.mark.skipif(sys.platform == "win32", reason="servers are started as on Unix")


def commands(start: str) -> str:
    """The block of the page that begins with this line."""
    (block,) = re.findall(rf"```sh\n({re.escape(start)}\n.*?)```", PAGE, re.DOTALL)
    return str(block)


def settings(folder: Path, name: str, url: str) -> Path:
    """The settings that deploy/ has for a machine, with the folder and the database of this test."""
    text = (DEPLOY / f"{name}.toml").read_text(encoding="utf-8")
    text = text.replace('"/srv/annai"', f'"{folder}"').replace('"postgresql://postgres/annai"', f'"{url}"')
    folder.mkdir()
    file = folder / "annai.toml"
    file.write_text(text.replace("0.0.0.0", "127.0.0.1"), encoding="utf-8")  # noqa: S104 - taken out
    return file


def machine(folder: Path, name: str, url: str) -> Config:
    return load_config(environment={"ANNAI_CONFIG": str(settings(folder, name, url))})


@pytest.fixture(scope="module")
def database() -> Iterator[Cluster]:
    """A database as the page makes it."""
    with running_cluster() as cluster:
        make = commands("createdb annai").replace("deploy/", f"{DEPLOY}/")
        cluster.shell(make, ANNAI_PASSWORD=WRITER, ANNAI_READER_PASSWORD=READER)
        yield cluster


@pytest.fixture(scope="module")
def documents(database: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of documents, which the indexer has indexed; with a graph, as large indexes have."""
    folder = tmp_path_factory.mktemp("team")
    source = folder / "文書"
    source.mkdir()
    for number in range(FILES):
        (source / f"手順{number}.md").write_text(f"# Document {number}\n\nword{number}\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))  # what is trusted here is nothing of the user's
        for module in (graphs, nearest):
            patch.setattr(module, "INDEX_FROM", FILES // 2)
        with Engine(machine(folder / "indexer", "indexer", database.url("annai", "annai", WRITER))) as engine:
            engine.add_collection("handbook", source, "All")
            assert engine.import_collection("handbook").added == FILES
            engine.store.vacuum()
    assert database.query("SELECT count(*) FROM pg_class WHERE relname LIKE 'annai_hnsw%'", "annai")
    return source


@on_unix
@pytest.mark.usefixtures("documents")
def test_a_server_whose_role_only_reads_answers(tmp_path: Path, database: Cluster) -> None:
    url = database.url("annai", "annai_reader", READER)
    file = settings(tmp_path / "server", "server", url)
    process = subprocess.Popen(
        [sys.executable, "-m", "annai", "server", "start", "--foreground", "--port", "auto"],
        env=os.environ | {"ANNAI_CONFIG": str(file), "ANNAI_TOKEN": "secret"},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout
        address = process.stdout.readline().partition(" at ")[2].split()[0]
        with Client(address, token="secret") as client:  # noqa: S106 - of a server that lives for seconds
            answer = client.search("word7")
            assert (answer[0].path, answer.freshness.problem) == ("手順7.md", "")
            assert client.read_only
            assert client.connection.send("GET", "/ready")[0] == 200
            with pytest.raises(StoreReadOnly, match=r"can only be read with this store\.url"):
                client.import_collection("handbook", adopt=True)
            metrics = client.connection.send("GET", "/metrics")[1].decode()
    finally:
        process.terminate()
        process.communicate(timeout=60)
    for name in set(re.findall(r"`(annai_\w+)`", PAGE)) - {"annai_reader"}:
        assert f"# TYPE {name} " in metrics, name
    with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("SET transaction_read_only = off; DELETE FROM annai.annai_files")


@on_unix
def test_a_restored_backup_gives_the_same_answers(tmp_path: Path, database: Cluster, documents: Path) -> None:
    questions = ["word7", "word21 document", "手順"]
    with Engine(machine(tmp_path / "before", "server", database.url("annai", "annai_reader", READER))) as engine:
        before = [engine.search(each).results for each in questions]
    assert all(before)
    folder = database.own(tmp_path / "dump")
    for start in ("pg_dump --format=custom --file=annai.dump annai", "createdb restored"):
        database.shell(f"cd {folder}\n{commands(start)}")
    with Engine(machine(tmp_path / "after", "server", database.url("restored", "annai_reader", READER))) as engine:
        assert [engine.search(each).results for each in questions] == before
    with running_cluster() as other:
        restore = commands("# On a new PostgreSQL").replace("deploy/", f"{DEPLOY}/")
        other.shell(f"cd {folder}\n{restore}", ANNAI_PASSWORD=WRITER, ANNAI_READER_PASSWORD=READER)
        with Engine(machine(tmp_path / "new", "server", other.url("annai", "annai_reader", READER))) as engine:
            assert [engine.search(each).results for each in questions] == before
    (documents / "手順7.md").write_text("# Document 7\n\nAnother text, since the backup.\n", encoding="utf-8")
    with Engine(machine(tmp_path / "indexer", "indexer", database.url("restored", "annai", WRITER))) as engine:
        summary = engine.import_collection("handbook")
        assert (summary.updated, summary.deleted, summary.added) == (1, 0, 0)
        assert engine.search("since the backup")[0].path == "手順7.md"


def test_files_for_compose_and_kubernetes_are_sound() -> None:
    tool = Path(sys.executable).parent
    for name, *arguments in (
        ("yamllint", "--strict", "--config-file", ROOT / ".yamllint.yaml", DEPLOY),
        ("check-jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml"),
    ):
        done = subprocess.run([tool / name, *map(str, arguments)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    manifests = [
        each
        for file in (DEPLOY / "kubernetes").iterdir()
        for each in yaml.safe_load_all(file.read_text(encoding="utf-8"))
    ]
    for each in manifests:
        kubernetes_validate.validate(each, KUBERNETES, strict=True)


def test_files_for_compose_and_kubernetes_name_what_there_is() -> None:
    kustomization = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text(encoding="utf-8"))
    assert {DEPLOY / each for each in kustomization["resources"]} == {*(DEPLOY / "kubernetes").iterdir()}
    generated = {each["name"]: each["files"] for each in kustomization["configMapGenerator"]}
    text = "\n".join(file.read_text(encoding="utf-8") for file in (DEPLOY / "kubernetes").iterdir())
    assert {*re.findall(r"configMap: {name: ([\w-]+)}", text)} == generated.keys()
    compose = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    named = [each.rpartition("=")[2] for files in generated.values() for each in files]
    assert all((DEPLOY / each).is_file() for each in [*named, *re.findall(r"- \./([\w.]+):", compose)])
    # What must be set is in the block that the page shows, and every secret that pods need is made there.
    assert {*re.findall(r"\${(\w+):\?", compose)} == {
        *re.findall(r"^(\w+)=", commands("DOCUMENTS=/srv/documents"), re.M)
    }
    for secret, key in re.findall(r"secretKeyRef: {name: ([\w-]+), key: (\w+)}", text):
        assert re.search(rf"secret generic {secret} [^`]*--from-literal={key}=", PAGE)
    roles = (DEPLOY / "roles.sql").read_text(encoding="utf-8")
    for user in re.findall(r"PGUSER(?:, value)?: (\w+)", compose + text):
        assert user == "postgres" or f"CREATE ROLE {user} LOGIN" in roles

"""Does a server live as long as it should, and no longer? Real processes: started, stopped, killed and forgotten."""

import dataclasses
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing

import psutil
import pytest

from annai.answers import Answer, Query
from annai.config import load_config
from annai.errors import ServerError
from annai.models.remote import Json
from annai.opening import own_server
from annai.serving import daemon
from annai.serving.client import Client
from annai.serving.pidfile import ServerRecord, publish, running
from tests import service as services
from tests.conftest import Annai, results, state_of, trust
from tests.loopback import eventually
from tests.serving.conftest import SETTINGS, LivingProject


def is_gone(record: ServerRecord) -> bool:
    try:
        return psutil.Process(record.pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_server_is_started_looked_at_and_stopped(place: LivingProject) -> None:
    annai = place.annai
    assert "No server is running for" in annai("server", "status").stdout
    assert "No server is running for" in annai("server", "stop").stdout
    assert re.fullmatch(r"Server started at http://127\.0\.0\.1:\d+ \(pid \d+\)\.\n", annai("server", "start").stdout)
    record = place.server()
    assert "A server is already running at" in annai("server", "start").stdout
    assert place.server() == record
    shown = annai("server", "status").stdout
    lines = (rf"Server +{record.url} \(pid {record.pid}", "Uptime +", r"Memory +\d+\.\d MB", "Log +", "Queue +")
    for line in (*lines, r"CPU +\d+% of a core +\(\d+ seconds? in all\)"):
        assert re.search(f"^{line}", shown, re.MULTILINE), shown
    assert f"serving {place.folder} at {record.url}" in annai("server", "logs").stdout
    told = json.loads(annai("server", "status", "--format", "json").stdout)
    assert (told["running"], told["pid"], told["port"]) == (True, record.pid, record.port)
    assert {"uptime_seconds", "memory", "requests", "indexing", "errors", "version", "log"} <= set(told)
    assert told["cpu_seconds"] > 0
    assert told["cpu_percent"] >= 0
    assert "Server stopped." in annai("server", "stop").stdout
    assert is_gone(record)
    assert not (state_of(place.folder) / "server.pid").exists()
    assert json.loads(annai("server", "status", "--format", "json").stdout) == {"running": False, "crashed": False}


def test_the_pid_file_says_who_runs_and_only_to_its_owner(place: LivingProject) -> None:
    record = place.start()
    file = state_of(place.folder) / "server.pid"
    assert file.stat().st_mode & 0o777 == 0o600
    told = json.loads(file.read_text())
    assert told["project_root"] == str(place.folder.resolve())
    assert told["config_path"] == str(place.folder.resolve() / "annai.toml")
    assert (told["host"], told["port"], told["project_name"]) == ("127.0.0.1", record.port, "docs")
    assert {"pid", "started_at", "version", "python_version", "process_created", "secret"} <= set(told)
    with closing(urllib.request.urlopen(f"{record.url}/health")) as answer:  # noqa: S310 - ours
        assert told["secret"] not in answer.read().decode()


def test_a_restart_keeps_the_port_and_takes_new_settings(place: LivingProject) -> None:
    before = place.start("--port", "auto")
    (place.folder / "annai.toml").write_text(SETTINGS + "[search]\nlimit = 1\n")
    (place.folder / "b.md").write_text("# B\n\nAnother apple.")
    shown = place.annai("server", "restart").stdout
    after = place.server()
    assert "Server stopped." in shown
    assert after.pid != before.pid
    assert after.port == before.port
    assert is_gone(before)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "search", "params": {"query": "apple"}}).encode()
    token = (state_of(place.folder) / "token").read_text().strip()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    call = urllib.request.Request(f"{after.url}/rpc", body, headers)  # noqa: S310 - ours
    place.annai("search", "apple")
    with closing(urllib.request.urlopen(call)) as answer:  # noqa: S310 - ours
        assert len(json.load(answer)["result"]["results"]) == 1


def test_a_restart_starts_what_was_not_running(place: LivingProject) -> None:
    shown = place.annai("server", "restart").stdout
    assert "No server is running" in shown
    assert "Server started" in shown
    place.server()


def test_of_two_starts_at_once_one_server_comes(place: LivingProject) -> None:
    for _ in range(3):
        starts = [
            subprocess.Popen(
                [sys.executable, "-m", "annai", "server", "start"], cwd=place.folder, stdout=subprocess.PIPE, text=True
            )
            for _ in range(3)
        ]
        shown = [start.communicate(timeout=120)[0] for start in starts]
        record = place.server()
        assert [start.returncode for start in starts] == [0, 0, 0]
        assert {re.search(r"pid (\d+)", each)[1] for each in shown} == {str(record.pid)}  # type: ignore[index]
        assert sum("Server started" in each for each in shown) == 1
        eventually(lambda record=record: [each.pid for each in servers_of(place)] == [record.pid])  # type: ignore[misc]
        place.annai("server", "stop")
        eventually(lambda: not servers_of(place))


def servers_of(place: LivingProject) -> list[psutil.Process]:
    """The server processes that live in the folder, as the operating system sees them."""
    log = str(state_of(place.folder) / "server.log")
    found = []
    for process in psutil.process_iter():
        try:
            if log in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_two_projects_run_side_by_side(make_place: Callable[..., LivingProject]) -> None:
    one, two = make_place("one"), make_place("two")
    assert one.start().port != two.start().port
    assert "text of one" in str(results(one.annai, "apple")[0]["content"])
    assert "text of two" in str(results(two.annai, "apple")[0]["content"])
    listed = json.loads(two.annai("server", "ls", "--json").stdout)
    assert [each["project_root"] for each in listed] == [str(one.folder), str(two.folder)]
    one.annai("server", "stop")
    assert "Server " in two.annai("server", "status").stdout
    listed = json.loads(two.annai("server", "ls", "--json").stdout)
    assert [each["project_root"] for each in listed] == [str(two.folder)]


def test_what_a_killed_server_left_behind_is_cleaned_up(place: LivingProject) -> None:
    annai = place.annai
    for clean_up in ("stop", "start", "restart"):
        record = place.start()
        psutil.Process(record.pid).kill()
        eventually(lambda record=record: is_gone(record))  # type: ignore[misc]
        assert "crashed or was killed" in annai("server", "status").stdout
        assert json.loads(annai("server", "status", "--format", "json").stdout) == {"running": False, "crashed": True}
        assert results(annai, "apple")
        assert "crashed or was killed" in annai("server", clean_up).stdout
        if clean_up == "stop":
            assert "No server is running" in annai("server", "status").stdout
        else:
            assert place.server().pid != record.pid
            annai("server", "stop")


def test_a_server_whose_folder_was_moved_ends_and_counts_as_none_in_the_new_place(place: LivingProject) -> None:
    record = place.start()
    place.folder = place.folder.rename(place.folder.with_name("moved"))
    annai = Annai(place.folder)
    assert results(annai, "apple")
    for command in ("status", "stop"):
        assert "No server is running" in annai("server", command).stdout
    eventually(lambda: is_gone(record))
    assert results(annai, "apple")


def test_a_foreign_process_is_never_taken_for_the_server(place: LivingProject) -> None:
    config = load_config(docs_dir=place.folder)
    record = place.start()
    place.annai("server", "stop")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bystander:
        publish(config, dataclasses.replace(record, pid=bystander.pid))
        assert running(config) is None
        assert results(place.annai, "apple")
        assert "cleaned up" in place.annai("server", "stop").stdout
        assert bystander.poll() is None
        bystander.communicate(b"\n")
    assert not config.pid_path.exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": "x"}', "\x00\xff"])
def test_a_pid_file_that_says_nothing_is_cleaned_up(place: LivingProject, content: str) -> None:
    state_of(place.folder).mkdir(parents=True)
    file = state_of(place.folder) / "server.pid"
    file.write_text(content, encoding="latin-1")
    assert results(place.annai, "apple")
    assert "cleaned up" in place.annai("server", "stop").stdout
    assert not file.exists()


def test_a_pid_file_that_came_with_the_folder_sends_no_question_away(place: LivingProject) -> None:
    config = load_config(docs_dir=place.folder)
    record = place.start()
    place.annai("server", "stop")
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        stranger.settimeout(0)
        port = stranger.getsockname()[1]
        publish(config, dataclasses.replace(record, host="localhost.localdomain", port=port))
        assert running(config) is None
        with pytest.raises(BlockingIOError):
            stranger.accept()


def test_a_server_whose_folder_is_gone_ends(place: LivingProject) -> None:
    record = place.start()

    def is_deleted() -> bool:
        # The server may be writing into it.
        shutil.rmtree(place.folder, ignore_errors=True)
        return not place.folder.exists()

    eventually(is_deleted)
    eventually(lambda: is_gone(record))


def test_a_server_whose_pid_file_is_gone_or_anothers_ends(place: LivingProject) -> None:
    record = place.start()
    (state_of(place.folder) / "server.pid").unlink()
    eventually(lambda: is_gone(record))
    record = place.start()
    publish(load_config(docs_dir=place.folder), dataclasses.replace(record, secret="another"))  # noqa: S106 - a test's
    eventually(lambda: is_gone(record))
    assert (state_of(place.folder) / "server.pid").exists()


def test_a_server_whose_settings_name_another_store_is_asked_nothing_and_ends(place: LivingProject) -> None:
    child = place.foreground()
    settings = place.folder / "annai.toml"
    settings.write_text(SETTINGS + "[search]\nlimit = 3\n[store")  # Half written.
    settings.write_text(SETTINGS + '[store]\ncollection_name = "other"\n')
    assert own_server(load_config(docs_dir=place.folder)) is None
    _, errors = child.communicate(timeout=60)
    assert "ending: [store] in annai.toml changed; `annai server start` serves the index that it names now" in errors
    assert child.returncode == 0
    assert "a.md" in place.annai("search", "apple").stdout


def test_a_server_that_nobody_asks_ends(make_place: Callable[..., LivingProject]) -> None:
    place = make_place(settings=SETTINGS + "idle_shutdown_minutes = 0.01\n")
    record = place.start()
    eventually(lambda: is_gone(record))
    assert "there was no request" in (state_of(place.folder) / "server.log").read_text()


def test_a_server_may_be_started_so_that_it_ends_when_nobody_asks(place: LivingProject) -> None:
    place.annai("server", "start", "--idle-minutes", "0.01")
    record = running(load_config(docs_dir=place.folder))
    eventually(lambda: record is None or is_gone(record))
    assert "there was no request for 0.01 minutes" in (state_of(place.folder) / "server.log").read_text()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_server_in_order(place: LivingProject, sent: signal.Signals) -> None:
    child = place.foreground()
    child.send_signal(sent)
    told, logged = child.communicate(timeout=60)
    assert child.returncode == 0
    assert re.match(r"Serving .* at http://127\.0\.0\.1:\d+ \(pid \d+\)\.\n", told)
    assert "INFO ended" in logged
    assert "Traceback" not in logged
    assert not (state_of(place.folder) / "server.pid").exists()


def test_a_second_server_in_the_foreground_is_refused(place: LivingProject) -> None:
    record = place.start()
    assert (
        f"A server is already running at {record.url}" in place.annai("server", "start", "--foreground", code=2).stderr
    )


def test_a_server_that_does_not_listen_is_ended_by_force(
    make_place: Callable[..., LivingProject], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = make_place(settings=SETTINGS + "shutdown_seconds = 0.1\n")
    record = place.start()
    psutil.Process(record.pid).suspend()
    monkeypatch.setattr(daemon, "STOP_SECONDS", 0.1)
    monkeypatch.setattr(daemon, "KILL_SECONDS", 1.0)
    assert daemon.stop(load_config(docs_dir=place.folder)) == "killed"
    assert is_gone(record)


def test_a_port_that_is_taken_is_told_of(make_place: Callable[..., LivingProject]) -> None:
    place = make_place()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"port {port}" in place.annai("server", "start", "--port", port, code=2).stderr
    for wrong in ("0", "65536", "x", "-1", ""):
        place.annai("server", "start", "--port", wrong, code=2)
    record = place.start()
    assert "restart --port 1" in place.annai("server", "start", "--port", "1", code=2).stderr
    assert place.server() == record


def test_the_usual_port_may_be_taken(make_place: Callable[..., LivingProject]) -> None:
    place = make_place(settings='[embedding]\nprovider = "hashing"\n')
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 24280))
            taken.listen()
        except OSError:
            pass  # Somebody else has it, which is as good.
        assert "Port 24280 is taken" in place.annai("server", "start").stdout
        assert place.server().port != 24280


def test_why_a_server_does_not_start_is_told(place: LivingProject) -> None:
    (place.folder / "annai.toml").write_text(SETTINGS + f'[database]\npath = "{place.folder / "a.md"}"\n')
    trust(place.folder)
    assert "a.md" in place.annai("server", "start", code=2).stderr
    (place.folder / "annai.toml").write_text(SETTINGS)
    assert "cannot be written" in place.annai("server", "start", "--log", "no/such/folder/log", code=2).stderr


def test_the_log_begins_anew_when_it_is_large(make_place: Callable[..., LivingProject]) -> None:
    place = make_place(settings=SETTINGS + '[logging]\nlevel = "debug"\nrotate_mb = 0.01\n')
    place.start("--log", "my.log")
    with place.client() as client:
        client.refresh()
        for _ in range(50):
            client.search(Query("apple"))
    eventually((place.folder / "my.log.1").exists)


def test_what_others_reach_asks_for_a_token(make_place: Callable[..., LivingProject]) -> None:
    place = make_place(settings=SETTINGS + 'host = "0.0.0.0"\n')
    trust(place.folder)
    record = place.start()
    token = state_of(place.folder) / "token"
    assert token.stat().st_mode & 0o777 == 0o600
    assert results(place.annai, "apple")
    with Client(record.url) as client, pytest.raises(ServerError, match="token"):
        client.status()
    place.annai("server", "stop")
    kept = token.read_text()
    place.start()
    assert token.read_text() == kept


def test_a_server_with_former_settings_for_models_is_told_of(place: LivingProject) -> None:
    place.start()
    assert place.annai("search", "apple").stderr == ""
    (place.folder / "annai.toml").write_text(SETTINGS.replace('provider = "hashing"\n', ""))
    done = place.annai("search", "apple")
    assert "a.md" in done.stdout
    assert "another [embedding] and keeps it; `annai server restart` gives it the one of now." in done.stderr
    place.annai("server", "restart")
    assert "another [embedding]" not in place.annai("search", "apple").stderr


def test_a_server_that_is_killed_while_it_changes_a_model_goes_on_with_that_and_no_search_fails(
    make_place: Callable[..., LivingProject],
) -> None:
    place, files = make_place(), 300
    for number in range(files):
        (place.folder / f"{number:03}.md").write_text(f"# file{number}\n\nAll about number{number} and nothing else.")
    place.annai("import")
    asked = Query("file7 number7", mode="vector", limit=5)

    def ranking(answer: Answer) -> list[tuple[str, float]]:
        return [(hit.path, round(hit.reasons.similarity, 2)) for hit in answer]

    with services.running() as service:

        def slowly(answer: Json) -> Json:
            time.sleep(0.05)
            return answer

        service.change = slowly
        embedding = (
            f'provider = "openai"\nbase_url = "{service.url}/v1"\nbatch_size = 4\ndimensions = 32\ncache_mb = 0\n'
        )
        (place.folder / "annai.toml").write_text(SETTINGS.replace('provider = "hashing"\n', embedding))
        trust(place.folder)
        found: list[list[tuple[str, float]]] = []

        def search_until(text: str) -> None:
            """Search until the state of the collection says so."""
            with place.client() as client:

                def is_there() -> bool:
                    found.append(ranking(client.search(asked)))
                    assert client.search("file7 number7").results[0].path == "007.md"
                    (status,) = client.status().collections
                    return text in f"{status.collection.embedder} {status.note}"

                eventually(is_there)

        record = place.start()
        assert "another [embedding]" not in place.annai("search", "file7").stderr
        search_until("documents have new ones")
        psutil.Process(record.pid).kill()
        eventually(lambda: is_gone(record))
        place.start()
        search_until("openai:text-embedding-3-small/32 ")
        with place.client() as client:
            after = ranking(client.search(asked))
        assert after != found[0]
        assert {*map(tuple, found)} <= {tuple(found[0]), tuple(after)}
        embedded = [text for text in service.texts() if "All about" in text]
        assert len(embedded) < 1.7 * files, "only the batch at hand is embedded again"

"""What can another user of this machine do? With a real second user: see that a server is there, and nothing else."""

import http.client
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from annai import __version__
from annai.config import load_config
from annai.interfaces.rpc import METHODS
from annai.serving.pidfile import ServerRecord, read_token
from tests.conftest import results, state_of
from tests.loopback import eventually
from tests.serving.conftest import LivingProject

NOBODY = 65534

AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs", "--")

# It runs under another user's Python, so it needs nothing but the standard library.
BEGINNING = """
import http.client, json, os, re, sys
asked = json.load(sys.stdin)

def status(method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", asked["port"], timeout=30)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()
"""

LOOKING = """
def reading(path):
    try:
        return os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(4096).hex()
    except OSError as error:
        return type(error).__name__

kind = {"Content-Type": "application/json"}
call = lambda method: json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}})
tokens = ["", "Bearer ", "Bearer x", "Basic eDp4"]
print(json.dumps({
    "user": os.getuid(),
    "health": status("GET", "/health"),
    "rpc": [status("POST", "/rpc", call(each), **kind)[0] for each in asked["methods"]],
    "guessed": [status("POST", "/rpc", call("get_status"), Authorization=each, **kind)[0] for each in tokens],
    "mcp": [status(method, "/mcp", call("tools/list"), **kind)[0] for method in ("GET", "POST", "DELETE")],
    "paths": {each: reading(each) for each in asked["paths"]},
    "command": reading("/proc/%d/cmdline" % asked["pid"]),
}))
"""

STEALING = """
def arguments(process):
    try:
        return open("/proc/%s/cmdline" % process, "rb").read().decode(errors="replace")
    except OSError:
        return ""

seen = "".join(arguments(each) for each in os.listdir("/proc") if each.isdecimal())
tickets = re.findall("127.0.0.1:%d/#ticket=([\\w-]+)" % asked["port"], seen)
ways = [{}, {"X-Forwarded-For": "127.0.0.1"}, {"Origin": "http://127.0.0.1:%d" % asked["port"]}]
print(json.dumps({
    "user": os.getuid(),
    "tickets": tickets,
    "answers": [status("POST", "/session", **{"X-Annai-Ticket": tickets[0]}, **way)[0] for way in ways],
}))
"""


@pytest.fixture(scope="module")
def second_user() -> Callable[..., dict[str, Any]]:
    """Runs a program as another user, with what it is to ask for."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can become another user, with setpriv (util-linux)")
    pythons = [each for each in (sys.executable, "/usr/bin/python3") if Path(each).exists()]
    usable = [each for each in pythons if subprocess.run([*AS_NOBODY, each, "-c", ""], check=False).returncode == 0]
    if not usable:
        pytest.skip("another user cannot run any Python here")

    def run(asked: dict[str, object], program: str = LOOKING) -> dict[str, Any]:
        done = subprocess.run(
            [*AS_NOBODY, usable[0], "-I", "-c", BEGINNING + program],
            input=json.dumps(asked),
            cwd="/",
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        found: dict[str, Any] = json.loads(done.stdout)
        assert found["user"] == NOBODY
        return found

    return run


@pytest.fixture
def place() -> Iterator[LivingProject]:
    """A project in a folder that everybody can read, as home folders often are."""
    # pytest's own folders are closed to others.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        place = LivingProject(Path(folder).resolve() / "docs")
        place.folder.chmod(0o755)
        secret = place.folder / "secret.md"
        secret.write_text("# Secret\n\nThe treasure lies under the oak.")
        secret.chmod(0o600)
        yield place
        place.clean_up()


def test_another_user_learns_nothing_from_a_server_but_that_it_is_there(
    place: LivingProject, second_user: Callable[..., dict[str, Any]]
) -> None:
    record = place.start()
    assert [row["path"] for row in results(place.annai, "treasure", "--mode", "keyword")] == ["secret.md"]
    found = second_user(asked_of(place, record))
    status, said = found["health"]
    assert (status, json.loads(said)) == (200, {"status": "ok"})
    assert __version__ not in said
    assert set(found["rpc"]) == set(found["guessed"]) == set(found["mcp"]) == {401}
    assert len(found["rpc"]) == len(METHODS)
    command = bytes.fromhex(found["command"]) if found["command"] != "PermissionError" else b""
    assert read_token(load_config(docs_dir=place.folder)).encode() not in command


def test_another_user_reads_nothing_of_what_annai_writes(
    place: LivingProject, second_user: Callable[..., dict[str, Any]]
) -> None:
    record = place.start()
    results(place.annai, "treasure")
    state = state_of(place.folder)
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    expected = {"index.sqlite", "index.sqlite.lock", "index.sqlite.keeper", "server.log", "server.lock", "server.pid"}
    assert expected | {"token"} <= {file.name for file in state.iterdir()}
    assert set(second_user(asked_of(place, record))["paths"].values()) == {"PermissionError"}
    # The files are closed by themselves too, should the folder be opened.
    state.chmod(0o755)
    found = second_user(asked_of(place, record))["paths"]
    del found[str(state)]
    assert set(found.values()) == {"PermissionError"}


def test_another_user_who_sees_the_address_that_a_browser_is_started_with_gets_nothing_by_it(
    place: LivingProject, second_user: Callable[..., dict[str, Any]]
) -> None:
    record = place.start()
    # A browser that shows its arguments and opens nothing.
    browser = {**os.environ, "BROWSER": "sh -c 'sleep 300' %s"}
    command = [sys.executable, "-m", "annai", "open"]
    opening = subprocess.Popen(command, cwd=place.folder, env=browser, start_new_session=True)
    try:
        shown: list[str] = []

        def is_shown() -> bool:
            found = psutil.Process(opening.pid).children(recursive=True)
            shown[:] = [each for child in found for each in child.cmdline() if "#ticket=" in each]
            return bool(shown)

        eventually(is_shown)
        ticket = shown[0].partition("#ticket=")[2]
        found = second_user({"port": record.port}, STEALING)
        assert set(found["tickets"]) == {ticket}, "the attack sees what it needs"
        assert found["answers"] == [403, 403, 403]
        assert redeem(record, ticket, X_Forwarded_For="127.0.0.1")[0] == 403, "a proxy of one's own brings anybody"
        assert redeem(record, ticket) == (200, read_token(load_config(docs_dir=place.folder))), "nor is it used up"
        assert redeem(record, ticket)[0] == 403
    finally:
        os.killpg(opening.pid, signal.SIGKILL)
        opening.wait()


def redeem(record: ServerRecord, ticket: str, **headers: str) -> tuple[int, str]:
    others = {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(http.client.HTTPConnection(record.host, record.port, timeout=60)) as connection:
        connection.request("POST", "/session", headers={"X-Annai-Ticket": ticket, **others})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()).get("token", "")


def asked_of(place: LivingProject, record: ServerRecord) -> dict[str, object]:
    state = state_of(place.folder)
    return {
        "port": record.port,
        "pid": record.pid,
        "methods": sorted(METHODS),
        "paths": [str(state), *(str(file) for file in sorted(state.iterdir())), str(place.folder / "secret.md")],
    }

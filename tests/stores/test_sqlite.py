"""Does the default store report what went wrong? The transactions of its file."""

from pathlib import Path

import pytest

from annai.stores.sqlite.database import Database


def test_the_error_that_ended_a_transaction_is_the_one_that_is_raised(tmp_path: Path) -> None:
    database = Database(tmp_path / "index.sqlite")

    def fail_after(statement: str) -> None:
        database.rows(statement)
        raise ZeroDivisionError

    for transaction in (database.reading, database.writing):
        with pytest.raises(ZeroDivisionError), transaction():
            # As SQLite does by itself when the disk is full or fails.
            fail_after("ROLLBACK")
    with pytest.raises(ZeroDivisionError), database.writing():
        fail_after("UPDATE generation SET number = 77")
    assert database.number("SELECT number FROM generation") != 77
    database.close()

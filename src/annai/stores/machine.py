"""Which machine is this? The name under which an index that machines share knows it."""

import functools
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from annai.config import Config


def machine_name(config: Config) -> str:
    """What `store.machine` says; else a name that was made here once. Empty if it could not be kept."""
    return config.store.machine or _own_name(user_state_folder())


def user_state_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the user's programs keep what belongs to this machine alone, unlike settings, which people synchronize."""
    if os.name == "nt":
        return Path(environment.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "annai"
    return Path(environment.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "annai"


@functools.cache
def _own_name(folder: Path) -> str:
    file = folder / "machine"
    try:
        if not file.exists():
            import platform  # once in a machine's life
            import secrets

            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = folder / f"machine.{os.getpid()}"
            draft.write_text(f"{platform.node() or 'machine'}-{secrets.token_hex(4)}\n", encoding="utf-8")
            # Linked, so that of two processes that do this at once both read the first one's.
            with suppress(FileExistsError):
                os.link(draft, file)
            draft.unlink()
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""

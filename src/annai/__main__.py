"""`python -m annai` is `annai`."""

import gc
import sys

COLLECT_AFTER = 200_000
"""New objects after which Python looks for garbage. By itself it does so dozens of times while modules are loaded; a
search makes fewer than these, so it never waits for that."""


def main() -> None:
    """Run the program. While it is still being loaded, too, Ctrl-C ends it with a word and not with a traceback."""
    gc.set_threshold(COLLECT_AFTER)
    try:
        from annai.interfaces.cli import main as run

        run()
    except KeyboardInterrupt:
        print("annai: interrupted.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()

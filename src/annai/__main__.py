"""`python -m annai` is `annai`."""

import sys


def main() -> None:
    """Run the program. While it is still being loaded, too, Ctrl-C ends it with a word and not with a traceback."""
    try:
        from annai.interfaces.cli import main as run

        run()
    except KeyboardInterrupt:
        print("annai: interrupted.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()

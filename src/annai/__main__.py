"""`python -m annai` is `annai`."""

from annai.interfaces.cli import main

main()

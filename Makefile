# One door: `make` shows what can be done.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help try test systems conformance fuzz chaos lint docs picture screenshots bench quality model mcpb clean

help:
	@echo "make try     install annai here and search the example documents"
	@echo "make test    check style and types, and run every test"
	@echo "make conformance run the official suite of the Model Context Protocol (needs npm)"
	@echo "make systems try what other machines do: types, processes, clocks, locales, names, file systems (mounts take root)"
	@echo "make fuzz    try whatever could arrive: files, settings, calls (five minutes)"
	@echo "make chaos   kill, freeze and confuse a server, then compare its index with a new one (ten minutes)"
	@echo "make docs    renew the generated pages in docs/, and build the site in build/site"
	@echo "make picture renew the picture of the README: two searches as a terminal shows them"
	@echo "make screenshots renew the pictures of the page (needs Debian's chromium)"
	@echo "make bench   measure speed and memory (needs ../shared/eval, or ANNAI_EVAL)"
	@echo "make quality measure the answers on the evaluation sets, against the baseline (needs the same)"
	@echo "make model   make the bundled model anew (needs ../shared/model, or ANNAI_MODEL_DATA)"
	@echo "make mcpb    build the bundle for one-click installs in desktop programs, in dist/"
	@echo "make clean   remove what the others made"

try: $(VENV)/.annai
	@$(PYTHON) -c "print('\n  annai search \"環境構築の方法\" --docs-dir examples\n')"
	@$(BIN)/annai search "環境構築の方法" --docs-dir examples --limit 3
	@$(PYTHON) -c "print('\n  annai search \"how do I roll back a bad deployment?\" --docs-dir examples\n')"
	@$(BIN)/annai search "how do I roll back a bad deployment?" --docs-dir examples --limit 3
	@echo
	@echo "Now your own: $(BIN)/annai search \"a question\" --docs-dir FOLDER"

# The tests start hundreds of processes: what they load is compiled once, also where PYTHONDONTWRITEBYTECODE is set.
test: lint
	@$(BIN)/python -m compileall -q src
	$(BIN)/pytest -n 2 --dist loadgroup

conformance: $(VENV)/.dev
	$(BIN)/python tests/conformance/run.py

fuzz: $(VENV)/.dev
	ANNAI_FUZZ=1500 $(BIN)/pytest tests/fuzz

chaos: $(VENV)/.dev
	$(BIN)/python benchmarks/chaos.py --minutes 7
	for engine in lancedb chroma postgres; do $(BIN)/python benchmarks/chaos.py --minutes 1 --engine $$engine || exit 1; done

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

systems: $(VENV)/.dev
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 src
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin src
	ANNAI_SYSTEMS=1 $(BIN)/pytest -rs tests/systems

docs: picture
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/mcp_transcript.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

picture: $(VENV)/.dev
	$(BIN)/python docs/picture.py

screenshots: $(VENV)/.dev
	$(BIN)/python docs/screenshots.py

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/pipeline.py
	$(BIN)/python benchmarks/vectors.py
	$(BIN)/python benchmarks/static.py
	$(BIN)/python benchmarks/embedders.py
	$(BIN)/python benchmarks/services.py
	$(BIN)/python benchmarks/server.py
	$(BIN)/python benchmarks/team.py
	$(BIN)/python benchmarks/mcp_start.py
	$(BIN)/python benchmarks/mcp_lists.py
	$(BIN)/python benchmarks/stores.py
	$(BIN)/python benchmarks/answers.py
	$(BIN)/python benchmarks/page.py
	$(BIN)/python benchmarks/help.py

quality: $(VENV)/.dev
	$(BIN)/python benchmarks/quality.py --write

mcpb: $(VENV)/.annai
	$(BIN)/python -m agents.mcpb

model: $(VENV)/.model
	$(BIN)/python -m model.build

$(VENV)/.model: model/requirements.txt $(VENV)/.dev
	@echo "Installing the workshop's tools into $(VENV) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement model/requirements.txt
	@touch $@

$(VENV)/.annai: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing annai into $(VENV) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing annai and its test tools into $(VENV) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(VENV)/.annai $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .conformance dist

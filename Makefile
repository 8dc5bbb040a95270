# Each target sets up what it needs: a virtual environment in .venv with the exact versions of constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check
PIP_HASHED := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes
MIRROR := $(wildcard ../shared/datasets)
AXE := .node/node_modules/axe-core/axe.min.js

.DEFAULT_GOAL := help
.PHONY: help demo test browser database check dist docs format benchmark soak hashes clean

help:  ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/.installed  ## Train propagation on the bundled UMLS graph, evaluate and ask it; then the paper's walker, rewarded by it
	$(BIN)/hopwalk data show umls
	$(BIN)/hopwalk train umls --resume
	$(BIN)/hopwalk evaluate runs/umls
	$(BIN)/hopwalk ask runs/umls steroid interacts_with --new -k 5
	$(BIN)/hopwalk train umls --reasoner walker --reward runs/umls --resume
	$(BIN)/hopwalk evaluate runs/umls-walker
	$(BIN)/hopwalk ask runs/umls-walker steroid interacts_with --new -k 5
	@echo "The same on a page: $(BIN)/hopwalk serve runs/umls runs/umls-walker"

test: $(VENV)/.installed-dev browser database  ## Run the tests
	$(if $(MIRROR),HOPWALK_MIRROR=$${HOPWALK_MIRROR-$(abspath $(MIRROR))}) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

browser:  ## Install Debian's chromium and axe-core for the tests of the page, if they are missing and can be installed
	@if [ -x /usr/bin/chromium ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium; } > /dev/null; \
	fi; [ -x /usr/bin/chromium ] || echo "no chromium: the tests of the page are skipped"
	@if [ ! -f $(AXE) ] && command -v npm > /dev/null; then npm install --silent --no-audit --no-fund --prefix .node axe-core@4.14.0 > /dev/null; fi; \
	[ -f $(AXE) ] || echo "no axe-core: the tests of accessibility are skipped"

database:  ## Install Debian's PostgreSQL for the tests of databases, if it is missing and can be installed
	@if [ -d /usr/lib/postgresql ] || command -v initdb > /dev/null; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends postgresql; } > /dev/null; \
	fi; [ -d /usr/lib/postgresql ] || echo "no PostgreSQL: the tests of databases are skipped"

check: $(VENV)/.installed-dev  ## Formatting, lint, types, import contract, licences of dependencies, docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tools.licences
	$(MAKE) --no-print-directory docs

# The date of the last commit stands in the archives, so that two builds of it have the same bytes.
dist: $(VENV)/.installed-dev  ## Build the source distribution and the wheel into dist/, and check them
	rm -rf dist
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH-$$(git log -1 --format=%ct 2> /dev/null || echo 315532800)} \
	  $(BIN)/python -m build --no-isolation --outdir dist . > /dev/null
	$(BIN)/twine check --strict dist/*

docs: $(VENV)/.installed-dev  ## Build the documentation, warnings are errors
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

format: $(VENV)/.installed-dev  ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

benchmark: $(VENV)/.installed-dev  ## Measure reading against polars' plain read, and training against PyKEEN's loop (minutes, 3 GB)
	$(if $(MIRROR),HOPWALK_MIRROR=$${HOPWALK_MIRROR-$(abspath $(MIRROR))}) $(BIN)/python -m benchmarks.ingest
	$(if $(MIRROR),HOPWALK_MIRROR=$${HOPWALK_MIRROR-$(abspath $(MIRROR))}) $(BIN)/python -m benchmarks.scorers

soak: $(VENV)/.installed-dev  ## Kill, damage, feed malformed inputs and load for MINUTES (5), from SEED (0); RECORD=1 writes results/soak.json
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.soak --minutes $(or $(MINUTES),5) --seed $(or $(SEED),0) $(if $(RECORD),--record)

hashes: $(VENV)/.installed-dev  ## Write the hashes of the files of all pinned packages to requirements/, after constraints.txt changed
	$(BIN)/python -m tools.hashes

clean:  ## Remove the environment and everything built
	rm -rf $(VENV) .node dist docs/_build runs .mypy_cache .pytest_cache .ruff_cache .hypothesis

# The stamps are written last, so what was interrupted is done again.
$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "hopwalk needs Python 3.11 or newer; say which with: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

# First the files whose hashes are known, then the package with whatever is still missing (docs/threat-model.md).
$(VENV)/.installed: pyproject.toml constraints.txt requirements/serve.txt | $(VENV)/.created
	$(PIP_INSTALL) --no-deps torch
	$(PIP_HASHED) -r requirements/serve.txt
	$(PIP_INSTALL) --no-build-isolation -e '.[serve]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed requirements/dev.txt
	$(PIP_HASHED) -r requirements/dev.txt
	$(PIP_INSTALL) --no-build-isolation -e '.[dev]'
	@touch $@

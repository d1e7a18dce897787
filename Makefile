# Everything sets itself up: `make run` needs only Python 3.11+ and make.
PYTHON ?= python3
VENV   ?= .venv
URLS   ?= sites.txt
ARGS   ?=
# One more than processors: tests of a daemon wait half of the time.
PROCESSES ?= $(shell expr $$(getconf _NPROCESSORS_ONLN 2> /dev/null || echo 1) + 1)

BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev
COMPILE := $(BIN)/pip-compile --quiet --no-strip-extras --generate-hashes --allow-unsafe --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: help screenshots catalogue run demo reproduce test test-all coverage soak test-changed test-python test-pythons check check-all lint types contracts sizes wording bench tables clean constraints

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

run: $(RUNTIME)  ## poll URLS (default sites.txt) under BUDGET polls per second (default 5); ARGS="--more flags"
	@exec $(BIN)/pollerd run $(URLS) $(if $(BUDGET),--budget $(BUDGET)) $(ARGS)

demo: $(RUNTIME)  ## a small changing web on loopback, polled live
	@exec $(BIN)/pollerd demo $(ARGS)

reproduce: $(DEV)  ## the papers' tables and figures, run anew: ARGS="--all --quick", ARGS="--list", ARGS=htraa-fig-6
	@exec $(BIN)/pollerd reproduce $(ARGS)

# Where bytecode is not kept (PYTHONDONTWRITEBYTECODE), every process that tests start would compile all of pollerd.
PYTEST := PYTHONDONTWRITEBYTECODE= \
	$(BIN)/python -m pytest --numprocesses $(PROCESSES) --maxprocesses 4 --dist loadfile --no-loadscope-reorder

test: $(DEV)  ## the quick tests of every room, in about a minute (.ci/times.txt names the others)
	$(PYTEST) --level test $(ARGS)

test-changed: $(DEV)  ## the quick tests, and those that import what changed since check-all last passed
	$(PYTEST) --level check $(ARGS)

test-all: $(DEV)  ## all tests
	$(PYTEST) $(ARGS)

screenshots: $(DEV)  ## pictures of all web pages in screenshots/, to be looked at; those of README and docs are renewed
	SCREENSHOTS=screenshots $(BIN)/python -m pytest -q tests/web/test_screenshots.py
	for picture in docs/screenshots/*.png; do cp screenshots/month/$$(basename $$picture) docs/screenshots/; done

catalogue: $(DEV)  ## pollerd/locale/pollerd.pot: the texts that a translation has
	$(BIN)/python benchmarks/catalogue.py

coverage: $(DEV)  ## all tests, with branch coverage: takes about half as much CPU time again as test-all
	$(PYTEST) --cov --cov-report=term $(ARGS)

soak: $(DEV)  ## half an hour of polling hostile pages: memory, descriptors, lag; ARGS="--minutes 75"
	$(BIN)/python benchmarks/soak.py $(ARGS)

check: lint types contracts sizes wording test-changed  ## what CI runs: lint, types, import contracts, sizes, wording and test-changed

# Run again after a failure it leaves out the files that passed and that nothing has changed for since. Notes the commit that
# passed in .ci/checked, which is committed next: what did not change since is left out by `make check`.
check-all: lint types contracts sizes wording  ## everything, before an issue is called resolved
	$(MAKE) test-all ARGS=--resume
	$(MAKE) test-pythons
	@test -z "$$(git status --porcelain)" && git rev-parse HEAD > .ci/checked || echo "not noted in .ci/checked: not all is committed"

OTHER_PYTHON_TESTS := tests/words tests/config tests/scheduling tests/detection tests/fetching tests/app

test-python: $(DEV)  ## what differs between interpreters, on another one: PYTHON=python3.13 VENV=.venv-3.13
	$(PYTEST) $(OTHER_PYTHON_TESTS) $(ARGS)

# pyenv offers the versions that PYENV_VERSION names.
OTHER_PYTHONS ?= 3.14 3.13 3.12
test-pythons:  ## test-python on each of OTHER_PYTHONS that is there, or with ONLY_NEWEST=1 on the first of them
	@if command -v pyenv > /dev/null; then export PYENV_VERSION="$$(pyenv versions --bare | paste -sd:)"; fi; \
	for version in $(OTHER_PYTHONS); do \
	  if "python$$version" -c '' 2> /dev/null; then \
	    $(MAKE) test-python PYTHON="python$$version" VENV=".venv-$$version" || exit 1; \
	    test -z "$(ONLY_NEWEST)" || break; \
	  else echo "python$$version is not here: nothing was run on it"; fi; \
	done

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV)
	$(BIN)/mypy

contracts: $(DEV)
	$(BIN)/lint-imports

sizes: $(DEV)  ## files and lines of each room
	$(BIN)/python benchmarks/sizes.py

wording: $(DEV)  ## texts that break the style guide (CONTRIBUTING.md)
	$(BIN)/python benchmarks/wording.py $(ARGS)

bench: $(DEV)  ## CPU seconds per 1,000 polls beside a bare aiohttp loop
	$(BIN)/python benchmarks/poll_cost.py --bench $(BENCH) $(ARGS)

tables: $(DEV)  ## rerun the tables of docs/ and compare; ARGS="--spot" (default), ARGS="--list", ARGS="htraa gpoks-8.9"
	$(BIN)/python benchmarks/check_tables.py $(or $(ARGS),--spot)

clean:
	rm -rf $(VENV) .venv-* .mypy_cache .ruff_cache .pytest_cache .coverage

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "pollerd needs Python 3.11 or newer; set PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(RUNTIME): constraints.txt pyproject.toml | $(BIN)/python
	$(PIP) install --require-hashes -r constraints.txt
	$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(DEV): constraints-dev.txt $(RUNTIME)
	$(PIP) install --require-hashes -r constraints-dev.txt
	@touch $@

# First all that developing needs, then what runs in the same versions: a tool may ask for an older library than the newest.
# Extras are pinned, too (`coverage[toml]==`): pip looks at the newest version of an extra that has no pin of its own and
# then finds no hash for it. As constraints (-c) pip takes names without extras only.
PINS := $(VENV)/pins.txt
constraints: | $(BIN)/python  ## pin anew every dependency, with hashes
	$(PIP) install pip-tools
	$(COMPILE) --extra dev --extra experiments -o constraints-dev.txt pyproject.toml
	sed -E 's/^([a-z0-9-]+)\[[a-z0-9,-]+\]==/\1==/' constraints-dev.txt > $(PINS)
	$(COMPILE) --all-build-deps -c $(PINS) -o constraints.txt pyproject.toml
	$(COMPILE) --all-build-deps --extra browser -c $(PINS) -o $(VENV)/browser.txt pyproject.toml
	{ echo '# What the extra `browser` adds; `make constraints` writes it.'; echo '-r constraints.txt'; \
	  awk 'FNR == NR { pinned[$$1]; next } /^[^ ]/ { added = /==/ && !($$1 in pinned) } added' constraints.txt $(VENV)/browser.txt; \
	} > constraints-browser.txt
	sed -i 's|$(PINS)|constraints-dev.txt|' constraints.txt constraints-browser.txt

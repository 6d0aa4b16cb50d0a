# Everything a person or CI does here. `make help` lists it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
ODOGRAPH := $(VENV)/bin/odograph
ARGS ?=

.PHONY: help setup pins check unit test up down demo load clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## Python environment in .venv, then the services' programs (about 2.3 GB in all, once)
	@$(ODOGRAPH) setup

check: $(READY) ## format, lint, types and layers
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports

unit: $(READY) ## tests of a minute: no service, no JVM, nothing slow; ARGS go to pytest
	@$(VENV)/bin/pytest -n 2 --dist loadscope -m "not slow and not spark" tests/unit $(ARGS)

test: $(READY) ## all tests on real services, in a home of their own; ARGS go to pytest
	@$(ODOGRAPH) setup --browser
	@$(VENV)/bin/pytest -n 2 --dist loadscope $(ARGS)

# One line a package with the hashes of all its files, of every platform; those for development at the end.
pins: ## infra/constraints.txt anew after a change in pyproject.toml (needs uv); other versions stay
	@pinned() { printf 'pip\nsetuptools\n' | uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	    --no-annotate --no-header -c infra/constraints.txt "$$@" pyproject.toml - | \
	    sed -E ':a; /\\$$/ { N; s/ *\\\n */ /; ba }'; }; \
	run=$$(pinned); all=$$(pinned --extra dev); \
	{ echo "$$run"; echo '# development'; grep -vxFf <(echo "$$run") <<< "$$all"; } > infra/constraints.new
	@mv infra/constraints.new infra/constraints.txt

up: setup ## start the local stack in the background
	@$(ODOGRAPH) up $(ARGS)

down: $(READY) ## stop the local stack; its data stays
	@$(ODOGRAPH) down

demo: setup ## the whole pipeline with a simulated fleet, in the foreground; Ctrl-C ends it
	@$(ODOGRAPH) demo $(ARGS)

load: setup ## how much this machine carries, as a capacity card (15 minutes); ARGS go to odograph bench
	@$(ODOGRAPH) bench $(or $(ARGS),--find-max)

clean: ## stop the stack; remove .odograph, .venv and the caches of this checkout
	@if [ -x $(ODOGRAPH) ]; then $(ODOGRAPH) down; fi
	rm -rf --one-file-system .odograph $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# pip reports a download's progress in raw lines when there is no terminal: one in twenty is shown.
$(READY): pyproject.toml infra/constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Python 3.11 or newer is needed; found: $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 setup" >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "$(PYTHON) has no venv module; on Debian: apt-get install python3-venv" >&2; exit 2; }
	@echo "Python packages into $(VENV): about 1.4 GB on disk, the largest download is PySpark"
	@[ -x $(VENV)/bin/python ] || $(PYTHON) -m venv $(VENV)
	@grep -E '^(pip|setuptools)==' infra/constraints.txt | \
	  $(VENV)/bin/python -m pip install --quiet --require-hashes -r /dev/stdin
	@$(VENV)/bin/python -m pip install --progress-bar raw --no-build-isolation --require-hashes -r infra/constraints.txt 2>&1 | awk ' \
	  /already satisfied/ { next } \
	  /^Progress/ { if (++n % 20 == 0) { printf "  %d of %d MB\n", $$2 / 1e6, $$4 / 1e6; fflush() } next } \
	  { print; fflush() }'
	@$(VENV)/bin/python -m pip install --quiet --no-build-isolation --no-index --no-deps -e .
	@$(VENV)/bin/python -m pip check --quiet
	@touch $@

# Every target sets up what it needs; `make test` on a bare machine with Python 3.11 and Go is enough.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.dev-installed
# Go installs itself here, which is often not on PATH
export PATH := $(PATH):/usr/local/go/bin

.PHONY: help setup check format test test-unit cluster-binaries cluster generate catalogue demo \
	bench clean

help:  ## Show this
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | expand -t 20

setup: $(STAMP)  ## A virtual environment with everything pinned by hash

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=...")'
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

check: setup  ## Lint, format, types, layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup  ## Format, and mend what can be mended
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

test: setup cluster-binaries  ## Everything, the tests on the real control plane included
	$(BIN)/python -m pytest

test-unit: setup  ## What needs no cluster
	$(BIN)/python -m pytest -m "not cluster"

cluster-binaries: setup  ## Build the local control plane and Helm, once
	PYTHONPATH=hack $(BIN)/python -m localcluster build

cluster: setup  ## Run the local control plane until Ctrl-C
	PYTHONPATH=hack $(BIN)/python -m localcluster up

generate: setup  ## The CRDs, from the models
	$(BIN)/python -m kvscale.api.crd

catalogue: setup  ## The presets, from the public configs in tests/data/hf_configs
	PYTHONPATH=hack $(BIN)/python -m catalogue

demo: setup cluster-binaries  ## A pool that scales, on this machine
	PYTHONPATH=hack $(BIN)/python -m demo

bench: setup  ## The measurements in the docs
	PYTHONPATH=hack $(BIN)/python -m bench

clean:  ## Remove what was built here (the cluster's programs stay in the cache)
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

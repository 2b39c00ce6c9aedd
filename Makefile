# `make run` shows the product on this machine; `make test` checks everything. Both set themselves up.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
export PYTHONDONTWRITEBYTECODE = 1

.PHONY: help run test test-long lint format lock bench clean

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

run: .venv/ready  ## play Cloud Scheduler against the real handler (ARGS="--slots 20 --store firestore")
	@$(BIN)/python -m local $(ARGS)

test: .venv/ready policies/.venv/ready  ## every test, with the emulator and the Pulumi engine
	@$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder $(ARGS)
	@cd policies && .venv/bin/python -m pytest

test-long: .venv/ready  ## thousands more random interleavings of workers and faults (some minutes)
	@SIMULATION_FIRST_SEED=1000 SIMULATION_SEEDS=5000 $(BIN)/python -m pytest tests/handler/test_simulation.py $(ARGS)

bench: .venv/ready  ## measure the handler beside the pattern of the Scheduler's own sample
	@$(BIN)/python -m bench.handler $(ARGS)

lint: .venv/ready policies/.venv/ready  ## ruff, mypy and actionlint
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@cd policies && ../$(BIN)/mypy --python-executable .venv/bin/python
	@$(BIN)/python -m tools.actionlint

format: .venv/ready  ## rewrite the code in the project's format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

.venv/ready: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "installing into .venv, once; it takes a few minutes"
	@$(PYTHON) -m venv .venv || { echo "needs Python's venv module (Debian: apt-get install python3-venv)"; exit 1; }
	@$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

policies/.venv/ready: policies/requirements-dev.txt
	@echo "installing into policies/.venv, once; it takes a minute or more"
	@$(PYTHON) -m venv policies/.venv
	@policies/.venv/bin/pip install --quiet --disable-pip-version-check -r policies/requirements-dev.txt
	@touch $@

lock: .venv/ready  ## write the pinned requirements again from the .in files
	@$(BIN)/pip install --quiet pip-tools
	@$(BIN)/pip-compile --quiet --upgrade --strip-extras --allow-unsafe --no-header --no-emit-find-links --no-emit-index-url -o requirements.txt requirements.in
	@$(BIN)/pip-compile --quiet --strip-extras --allow-unsafe --no-header --no-emit-find-links --no-emit-index-url -c requirements.txt -o handler/requirements.txt handler/requirements.in
	@cd policies && ../$(BIN)/pip-compile --quiet --upgrade --strip-extras --allow-unsafe --no-header --no-emit-find-links --no-emit-index-url -o requirements.txt requirements.in
	@cd policies && ../$(BIN)/pip-compile --quiet --upgrade --strip-extras --allow-unsafe --no-header --no-emit-find-links --no-emit-index-url -o requirements-dev.txt requirements-dev.in

clean:  ## remove what the commands above made
	@rm -rf .venv policies/.venv .local .mypy_cache .ruff_cache .pytest_cache

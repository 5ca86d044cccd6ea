# Every target says what it does: `make` alone prints them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.workspace-installed
PROJECTS := $(wildcard libs/*/pyproject.toml services/*/pyproject.toml)
SOURCES := libs services tests

.PHONY: help setup up down demo test test-unit drills chaos model-check conformance bench bench-peer lint format types imports ci contracts clean

help: ## print this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(STAMP) ## install everything into .venv (quick the second time)

$(STAMP): deploy/python/tools.txt deploy/python/workspace.txt deploy/python/constraints.txt $(PROJECTS)
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or newer is missing: apt-get install python3 python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -r deploy/python/tools.txt -c deploy/python/constraints.txt
	$(BIN)/pip install -q --no-build-isolation -r deploy/python/workspace.txt -c deploy/python/constraints.txt
	@touch $@

up: setup ## start a local Kafka and Postgres to explore, print how to reach them
	$(BIN)/sagabus up

down: setup ## stop what `make up` started
	$(BIN)/sagabus down

demo: setup ## 200 orders through real services that are killed meanwhile; checks every book, under 90 s
	$(BIN)/sagabus demo

test: setup ## unit, architecture, contract, integration and acceptance tests on real Kafka and Postgres
	$(BIN)/pytest -m "not drill"

test-unit: setup ## the tests that need no server, in seconds
	$(BIN)/pytest -m "not stack and not drill"

drills: setup ## outage drills on real servers and services, 10 minutes; build/drills.json
	$(BIN)/pytest tests/drills -m drill
	$(BIN)/pytest tests/chaos -m drill

chaos: setup ## kill, cut, freeze and repeat everything under load: SECONDS=60 SEED=random; build/chaos.json
	$(BIN)/python -m tests.chaos --seconds $(or $(SECONDS),60) $(addprefix --seed ,$(SEED))

model-check: setup ## explore every reachable state of small sagas (10 minutes); build/model-check.json
	$(BIN)/python -m tests.model

conformance: setup ## prove a running participant: PARTICIPANT=payment STEP=charge-card PAYLOAD=file.json OPTIONS=...
	$(BIN)/sagabus conformance --participant $(PARTICIPANT) --step $(STEP) --payload $(PAYLOAD) $(OPTIONS)

bench: setup ## measure parts and whole beside their floors, 10 minutes; build/bench.json
	$(BIN)/python -m tests.bench

bench-peer: setup ## the same unit of work on DBOS Transact and here, with the ratios; build/bench.json
	$(BIN)/python -m tests.bench.peer

format: setup ## rewrite the code in the house format
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

lint: setup ## formatter and linter, changing nothing
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)

types: setup ## strict types over sources and tests
	$(BIN)/mypy $(SOURCES)

imports: setup ## the import rules
	$(BIN)/lint-imports --config .importlinter

contracts: setup ## regenerate contracts/ from the code
	$(BIN)/python -m sagabus_messages.export contracts
	$(BIN)/python -m sagabus_orchestrator.api.export contracts
	$(BIN)/python -m tests.contract.metrics

# With DRILLS=yes in the environment (of .ci/run too) the outage drills run behind the tests.
ci: lint types imports test $(if $(DRILLS),drills) ## what CI runs; DRILLS=yes: and the outage drills

clean: ## remove what was built (keeps the download caches)
	rm -rf $(VENV) build .stack .mypy_cache .ruff_cache .pytest_cache

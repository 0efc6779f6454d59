.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help install run test fuzz check bench bench-fires bench-next lock openapi

help:  ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

install: $(STAMP)  ## Make the virtual environment with the locked dependencies

run: $(STAMP)  ## Start everything in one process, on the embedded PostgreSQL and Redis
	@exec $(BIN)/agentsched up

test: $(STAMP)  ## Run the whole test suite
	$(BIN)/python -m pytest -n auto $(ARGS)

fuzz: $(STAMP)  ## Walk at random through the services for long (tests/properties says how)
	AGENTSCHED_FUZZ=1 $(BIN)/python -m pytest -s --timeout=0 $(ARGS) tests/properties

check: $(STAMP)  ## Format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: bench-fires bench-next  ## Both benchmarks

bench-fires: $(STAMP)  ## Fires per second of the full tick, beside the same writes as one bare statement
	$(BIN)/python -m tests.benchmarks.fires

bench-next: $(STAMP)  ## From the end of a run to the start of the next in line, over two worker processes
	$(BIN)/python -m tests.benchmarks.next_start

openapi: $(STAMP)  ## Export the specification to openapi/agentsched.json
	$(BIN)/agentsched openapi > openapi/agentsched.json

lock: $(STAMP)  ## Write requirements.lock anew (needs uv)
	uv pip compile --universal --generate-hashes --no-emit-index-url --no-header \
	  --python-version 3.11 --all-extras --quiet pyproject.toml --output-file requirements.lock

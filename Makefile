# One entry point for every chore. Every target creates its own environment first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
USABLE := $(VENV)/usable
READY  := $(VENV)/ready
PEERS  := .venv-bench/ready

.DEFAULT_GOAL := help
.PHONY: help demo demo-cluster test check services services-down services-status crawl bench soak docs format clean

help:  ## show this list
	@echo 'make VERB, where VERB is one of these. Each makes its own environment in $(VENV) first, where it needs one.'
	@echo
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(BIN)/python:
	@echo "First time here. Making an environment in $(VENV) with $$($(PYTHON) --version): some seconds"
	@$(PYTHON) -m venv $(VENV)

# Enough to crawl.
$(USABLE): pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Installing Skitter and what it needs into $(VENV): about half a minute'
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

# Enough to work on Skitter.
$(READY): pyproject.toml constraints.txt | $(USABLE)
	@echo 'Installing tools for tests, checks and clusters into $(VENV): about a minute'
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(USABLE) $@

demo: $(USABLE)  ## crawl a small made-up web on loopback, and see what Skitter does
	@$(BIN)/python scripts/demo.py

demo-cluster: $(READY)  ## two workers on real engines crawl the same made-up web; about a minute
	@$(BIN)/python scripts/demo_cluster.py

crawl: $(USABLE)  ## crawl a real site: make crawl URL=https://example.org [ARGS="--max-pages 100"]
	@test -n "$(URL)" || { echo 'which site? make crawl URL=https://example.org' >&2; exit 2; }
	@$(BIN)/skitter crawl $(URL) $(ARGS) || test $$? -eq 3  # stopping at a requested limit is not a failure

services:  ## install and start PostgreSQL, Redis, Kafka, OpenSearch and S3 on loopback, for the tests
	@scripts/services up

services-down:  ## stop them; their data stays in .services
	@scripts/services down

services-status:  ## which of them are up, where, with how much memory
	@scripts/services status

test: $(READY)  ## run the test suite, on real engines where `make services` started them
	@$(BIN)/python scripts/suite.py

soak: $(READY)  ## the long versions: a thousand kills, fifty losses of power, a million seeds, a hundred thousand pages, ten million URLs, ten polite minutes
	$(BIN)/pytest -q -s -m soak
	$(BIN)/python -m benchmarks.frontier --urls 1000000 10000000
	$(BIN)/python -m benchmarks.frontier --urls 5000000 --shape one-host
	$(BIN)/python -m benchmarks.frontier --urls 1000000 --shape many-hosts

bench: $(READY) $(PEERS)  ## measure whole crawls, synthetic and real, beside Scrapy, Crawlee and wget, and their parts
	$(BIN)/python -m benchmarks $(ARGS)

# The other crawlers, in an environment separate from ours.
$(PEERS): benchmarks/peers/requirements.txt
	@echo 'Installing the other crawlers into .venv-bench: about half a minute'
	@test -d .venv-bench || $(PYTHON) -m venv .venv-bench
	@.venv-bench/bin/pip install --quiet --disable-pip-version-check -r benchmarks/peers/requirements.txt
	@touch $@

docs: $(READY)  ## make the generated reference anew
	$(BIN)/python scripts/reference.py

check: $(READY)  ## linters and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)  ## format and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove the environment and everything made by the other verbs
	@test ! -d .services || scripts/services down
	rm -rf .services $(VENV) .venv-bench demo demo-cluster bench-out .pytest_cache .mypy_cache .ruff_cache

# make demo: set up and train the embedded default. make test: set up and run the tests. Both make .venv when it is not
# there or when the lock changed.
#   EXTRA=gpu            the GPU lock            PYTHON=python3.12   another Python (3.11 or 3.12)
#   TORCH_INDEX_URL=...  another build of torch  ARGS="seed=1"       more words for the demo
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

EXTRA ?= cpu
VENV ?= .venv
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
TORCH ?= torch==2.13.0
LOCK := locks/$(EXTRA).txt
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.agentrl-$(EXTRA)
# the checksum of everything that decides what is in the environment: a lock that changed makes it anew
WANTED := $(shell cat $(LOCK) pyproject.toml envs/*/pyproject.toml 2>/dev/null | sha256sum | cut -c1-16)
PIP := $(RUN) -m pip install --quiet --disable-pip-version-check

.PHONY: help demo test test-all lint lock tiny-policy clean venv

help:
	@sed -n '1,5p' Makefile | sed 's/^# \{0,1\}//'; echo "targets: demo test test-all lint lock tiny-policy clean"

demo: venv
	$(RUN) -m agentrl.main +recipe=ptgpo_webshop $(ARGS)

test: venv
	$(RUN) -m pytest $(ARGS)

test-all: venv
	$(RUN) -m pytest -m "slow or not slow" $(ARGS)

lint: venv
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

tiny-policy: venv
	$(RUN) -m agentrl.coldstart tiny-policy $(ARGS)

venv:
	@if [ "$$(cat $(STAMP) 2>/dev/null)" != "$(WANTED)" ]; then $(MAKE) --no-print-directory new-venv; fi

.PHONY: new-venv
new-venv:
	@[ -n "$(PYTHON)" ] || { echo "make: no Python found; install Python 3.11 or 3.12, or name one: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' || { echo "make: $(PYTHON) is $$($(PYTHON) --version 2>&1); agentrl needs Python 3.11 or 3.12: make PYTHON=python3.11" >&2; exit 2; }
	@echo "setting up $(VENV) from $(LOCK) (a few minutes, once)"
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@# torch first and alone, with its own dependencies: nothing later may choose another build
	@$(PIP) $(TORCH) $(if $(TORCH_INDEX_URL),--index-url $(TORCH_INDEX_URL))
	@$(PIP) --no-deps --require-hashes -r $(LOCK)
	@$(PIP) --no-deps --no-build-isolation $(patsubst %/pyproject.toml,-e ./%,$(wildcard envs/*/pyproject.toml)) -e .
	@echo "$(WANTED)" > $(STAMP)

# uv reads metadata only; the old lock is its preference, so that nothing moves without need
lock:
	@rm -rf .lock-venv && $(PYTHON) -m venv .lock-venv && .lock-venv/bin/pip install --quiet uv
	.lock-venv/bin/uv pip compile --quiet --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --override locks/cpu-overrides.txt --extra cpu --extra dev pyproject.toml locks/environments.in -o locks/cpu.txt
	.lock-venv/bin/uv pip compile --quiet --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --no-emit-package torch --extra gpu --extra dev pyproject.toml locks/environments.in -o locks/gpu.txt
	@rm -rf .lock-venv

clean:
	rm -rf $(VENV) .lock-venv build dist *.egg-info envs/*/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

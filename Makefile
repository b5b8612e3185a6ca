# make demo: set up and train the embedded default. make test: set up and run the tests. Both make .venv when it is not
# there or when the lock changed.
#   EXTRA=gpu            the GPU lock            PYTHON=python3.12   another Python (3.11 or 3.12)
#   TORCH_INDEX_URL=...  another build of torch  ARGS="seed=1"       more words for the demo or the tests
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
RUN := $(VENV)/bin/python
TORCH := torch==2.13.0
# "cpu CHECKSUM" or "gpu CHECKSUM" of what was installed; written last, so that a half-made environment is made anew
STAMP := $(VENV)/.agentrl-lock
# the checksum of what names the packages and entry points of this folder: to install those again takes seconds
OWN_STAMP := $(VENV)/.agentrl-own
# without EXTRA an environment that was made for GPUs stays one
EXTRA ?= $(or $(filter cpu gpu,$(firstword $(shell cat $(STAMP) 2>/dev/null))),cpu)
LOCK := locks/$(EXTRA).txt
WANTED := $(EXTRA) $(firstword $(shell cat $(LOCK) 2>/dev/null | cksum)) $(TORCH)
OWN := $(wildcard pyproject.toml envs/*/pyproject.toml)
OWN_WANTED := $(firstword $(shell cat $(OWN) | cksum))
PIP := $(RUN) -m pip install -qq --disable-pip-version-check --no-input
USABLE := 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))'
# the first Python that will do; one that is only a shim without an interpreter behind it will not
PYTHON ?= $(shell for p in python3.11 python3.12 python3 python; do \
  "$$p" -c $(USABLE) 2>/dev/null && { command -v "$$p"; break; }; done; true)

# what `make engines` installed: ALFWorld's and ScienceWorld's engines, which nothing else needs
ENGINES := $(VENV)/.agentrl-engines
ENGINES_WANTED := $(firstword $(shell cat locks/engines.txt 2>/dev/null | cksum))

.PHONY: help demo test test-all lint lock tiny-policy clean venv new-venv engines

help:
	@sed -n '1,4p' Makefile | sed 's/^# \{0,1\}//'; echo "targets: demo test test-all lint lock tiny-policy clean venv engines"

demo: venv
	$(RUN) -m agentrl.main +recipe=ptgpo_webshop $(ARGS)

test: engines
	$(RUN) -m pytest $(ARGS)

test-all: engines
	$(RUN) -m pytest -m "slow or not slow" $(ARGS)

lint: engines
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

tiny-policy: engines
	$(RUN) -m agentrl.coldstart tiny-policy $(ARGS)

# An environment of ours that is half-made or out of date is made anew; one that somebody else made is moved, never deleted.
# One at a time: a second make waits for the first (where the system has flock) and then finds everything there
venv:
	@exec 9>.venv-lock; if command -v flock >/dev/null; then flock -n 9 || { echo "another make is setting up $(VENV): waiting"; flock 9; }; fi; \
	if [ "$$(cat $(STAMP) 2>/dev/null)" != "$(WANTED)" ]; then $(MAKE) --no-print-directory new-venv EXTRA=$(EXTRA); fi; \
	if [ "$$(cat $(OWN_STAMP) 2>/dev/null)" != "$(OWN_WANTED)" ]; then \
	  $(PIP) --no-deps --no-build-isolation $(patsubst %/pyproject.toml,-e ./%,$(filter envs/%,$(OWN))) -e .; \
	  echo "$(OWN_WANTED)" > $(OWN_STAMP); fi

# two of them are compiled: without cmake and a C++ compiler everything else still works
engines: venv
	@if [ "$$(cat $(ENGINES) 2>/dev/null)" != "$(ENGINES_WANTED)" ]; then \
	  echo "  the engines of ALFWorld and ScienceWorld from locks/engines.txt"; \
	  $(PIP) --no-deps --require-hashes -r locks/engines.txt || { \
	    echo "make: the engines could not be installed; they need make, cmake, a C and a C++ compiler" >&2; exit 2; }; \
	  echo "$(ENGINES_WANTED)" > $(ENGINES); fi

new-venv:
	@[ -f $(LOCK) ] || { echo "make: EXTRA=$(EXTRA): there is no $(LOCK); use EXTRA=cpu or EXTRA=gpu" >&2; exit 2; }
	@python="$(PYTHON)"; \
	[ -n "$$python" ] || { echo "make: no Python 3.11 or 3.12 that can make virtual environments was found; install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 2; }; \
	"$$python" -c $(USABLE) 2>/dev/null || { echo "make: PYTHON=$$python ($$("$$python" --version 2>&1 | head -1 || true)) will not do; agentrl needs Python 3.11 or 3.12 with its venv module: make PYTHON=/path/to/python3.11" >&2; exit 2; }; \
	case "$$python" in $(VENV)/*|./$(VENV)/*|"$(CURDIR)/$(VENV)"/*) \
	  python="$$("$$python" -c 'import sys; print(sys._base_executable)')";; esac; `# an activated $(VENV) is about to go` \
	echo "setting up $(VENV) from $(LOCK) with $$("$$python" --version 2>&1): about four minutes, once"; \
	if [ -e $(VENV) ] && ! compgen -G "$(VENV)/.agentrl-*" >/dev/null; then \
	  kept=$(VENV)-before-$$(date +%Y%m%d-%H%M%S); mv $(VENV) "$$kept"; \
	  echo "$(VENV) was not made by this Makefile: it is kept as $$kept"; fi; \
	rm -rf $(VENV); mkdir $(VENV); touch $(VENV)/.agentrl-made; "$$python" -m venv $(VENV)
	@# torch first and alone, with its own dependencies: nothing later may choose another build
	@echo "  $(TORCH)"
	@$(PIP) $(TORCH) $(if $(TORCH_INDEX_URL),--index-url $(TORCH_INDEX_URL))
	@echo "  $$(grep -c == $(LOCK)) packages at the versions of $(LOCK)"
	@$(PIP) --no-deps --require-hashes -r $(LOCK)
	@echo "$(WANTED)" > $(STAMP)

# uv reads metadata only; the old lock is its preference, so that nothing moves without need
lock:
	@python="$(PYTHON)"; rm -rf .lock-venv; "$${python:-python3}" -m venv .lock-venv; .lock-venv/bin/pip install -qq uv
	.lock-venv/bin/uv pip compile --quiet --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --override locks/cpu-overrides.txt --extra cpu --extra dev pyproject.toml locks/environments.in -o locks/cpu.txt
	.lock-venv/bin/uv pip compile --quiet --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --no-emit-package torch --extra gpu --extra dev pyproject.toml locks/environments.in -o locks/gpu.txt
	.lock-venv/bin/uv pip compile --quiet --python-version 3.11 --generate-hashes --no-header --no-annotate --no-deps \
	  locks/engines.in -o locks/engines.txt
	@rm -rf .lock-venv

clean:
	rm -rf $(VENV) .venv-lock .lock-venv build dist *.egg-info envs/*/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# Plain `make` lists the targets. Everything installs into .venv, from the versions in constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export OMP_NUM_THREADS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help install demo test test-all lint format package bench bench-peers clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

install: $(VENV)/installed  ## make .venv and install ramet with the developers' tools

# What ramet needs to run. Whoever wants to see the demo does not wait for linters, browsers and Ray.
$(VENV)/installed-runtime: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	@touch $@

$(VENV)/installed: $(VENV)/installed-runtime
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(VENV)/installed-runtime  ## the tour: five short stories on the embedded digits, and one page to open, in minutes
	$(BIN)/ramet tour --out runs/tour --overwrite --workers 2

test: install  ## the required tests, in under ten minutes on two cores
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m 'not slow and not realdata'

test-all: install  ## also the slow tests and those on real data (set RAMET_DATA)
	$(BIN)/python -m pytest -n 2 --dist loadgroup

lint: install  ## ruff and strict mypy
	$(BIN)/ruff check ramet ramet_papers tests benchmarks
	$(BIN)/ruff format --check ramet ramet_papers tests benchmarks
	$(BIN)/mypy

format: install  ## let ruff put the code in order
	$(BIN)/ruff check --fix ramet ramet_papers tests benchmarks
	$(BIN)/ruff format ramet ramet_papers tests benchmarks

package: install  ## build wheel and source distribution into dist/, and try them in an environment of their own
	PYTHON=$(PYTHON) .ci/package

bench: install  ## speed and memory, each as a ratio within one run
	$(BIN)/python -m benchmarks

bench-peers:  ## other people's libraries beside ours, installed in environments of their own
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet -c constraints.txt torch==2.13.0 -r benchmarks/peers/requirements.txt
	.venv-peers/bin/python -m pip install --quiet -c constraints.txt -e .
	$(PYTHON) -m venv .venv-nni
	.venv-nni/bin/python -m pip install --quiet torch==2.13.0 -r benchmarks/peers/requirements-nni.txt
	.venv-nni/bin/python -m pip install --quiet -e .
	.venv-peers/bin/python -m benchmarks.peers avalanche gromo rsatoolbox; peers=$$?; \
	.venv-nni/bin/python -m benchmarks.peers nni && exit $$peers

clean:  ## remove what was installed and made here
	rm -rf $(VENV) .venv-peers .venv-nni build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

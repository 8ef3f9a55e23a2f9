# Plain `make` lists the targets. Everything installs into .venv, from the versions in constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CODE := ramet ramet_papers tests benchmarks campaigns docs/conf.py docs/site .ci/follow setup.py
export OMP_NUM_THREADS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help install demo test test-all test-oldest test-newest lint format audit package campaign docs bench bench-peers clean

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

# A part of the suite that touches every dependency of the runtime. What needs the developers' libraries is left out.
VERSIONED := tests/runs tests/registry tests/data tests/reports tests/training tests/guards/test_guard_conformance.py \
	tests/ranking/test_metrics.py tests/growth/test_growth_widening.py tests/cli/test_cli_options.py tests/cli/test_lines.py
REQUIRED := -n 2 -m 'not slow and not realdata and not needs_program'

test-oldest:  ## a part of the tests with the oldest allowed versions, in an environment of its own
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet -r constraints-oldest.txt pytest pytest-xdist hypothesis
	PYTHONPATH="$(CURDIR)" .venv-oldest/bin/python -m pytest $(REQUIRED) $(VERSIONED)

# The newest torch brings gigabytes of libraries for graphics cards along; TORCH=torch==2.13.0 takes another one.
TORCH ?= torch

test-newest:  ## the same with the newest versions that can be had; TORCH=torch==VERSION for another torch
	$(PYTHON) -m venv .venv-newest
	.venv-newest/bin/python -m pip install --quiet --upgrade $(TORCH) -e '.[images]' pytest pytest-xdist hypothesis
	.venv-newest/bin/python -m pytest $(REQUIRED) $(VERSIONED)

lint: install  ## ruff and strict mypy
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy

format: install  ## let ruff put the code in order
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

package: install  ## build wheel and source distribution into dist/, and try them in an environment of their own
	PYTHON=$(PYTHON) .ci/package

# The site's tools go into .venv only here: who tests does not wait for them.
$(VENV)/installed-docs: $(VENV)/installed
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	@touch $@

docs: $(VENV)/installed-docs  ## build the site into site/, run its notebooks; a warning, a dead link, a page that nobody links end it
	rm -rf site
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -j 2 -b html -d build/doctrees docs site

# Fuzzing that is led by coverage. There are not wheels for every Python; without, its lines say that they were not tried.
$(VENV)/installed-campaign: $(VENV)/installed
	-$(BIN)/python -m pip install --quiet atheris==3.0.0
	@touch $@

campaign: $(VENV)/installed-campaign  ## kills, failing disks, damaged files, load, lost machines: what was tried, and what was lost; LONG=1 for hours
	$(BIN)/python -m campaigns $(if $(LONG),--long) $(if $(MARKDOWN),--markdown)

audit:  ## known vulnerabilities of what is installed (asks a service), and bandit's look at the code
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python -m pip install --quiet pip-audit bandit
	.venv-audit/bin/bandit --quiet --recursive --configfile pyproject.toml ramet ramet_papers
	.venv-audit/bin/pip-audit --strict --requirement constraints.txt --no-deps --disable-pip

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
	rm -rf $(VENV) .venv-peers .venv-nni .venv-oldest .venv-newest .venv-audit build dist site jupyter_execute docs/reference *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

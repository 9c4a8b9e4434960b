# The whole workflow. Every target builds the same .venv first; nothing else is needed but Python.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# What runs tests; .ci/run gives those that fail a second try.
PYTEST := $(BIN)/python -m pytest
# Tests of one group share a worker; tests/conftest.py puts what takes long first.
TWO_WORKERS := -n 2 --dist loadgroup --no-loadscope-reorder
# One thread per numerical library: parallelism comes from test processes and our own threads.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test coverage faults browser browser-tests screenshots check fix docs golden reproduce bench bench-check fuzz clean

demo: $(STAMP)
	$(BIN)/fedsift demo

test: $(STAMP)
	$(PYTEST) $(TWO_WORKERS)

faults: $(STAMP)
	$(PYTEST) -m faults tests/system

# Statements of the package that tests run; tests/README.md has the number to keep.
coverage: $(STAMP)
	$(PYTEST) $(TWO_WORKERS) --cov=fedsift --cov-report=term:skip-covered

# Chromium and what drives it; 'make test' skips tests/system/browser on machines without.
browser: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[browser]'
	command -v chromium > /dev/null || { apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium; }

browser-tests: browser
	FEDSIFT_BROWSER=required $(PYTEST) tests/system/browser

screenshots: browser
	$(BIN)/python docs/make_screenshots.py

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fix: $(STAMP)
	$(BIN)/python docs/reference.py
	$(BIN)/python docs/api_reference.py
	$(BIN)/python docs/who_learns_what.py
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Rewrites the runs that tests/golden compares with; only for changes of a protocol that are meant.
golden: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -W ignore -m golden.record

reproduce: $(STAMP)
	$(BIN)/python -m benchmarks.reproduce

bench: $(STAMP)
	$(BIN)/python -m benchmarks filters --profile regular --out benchmarks/filters.json

# Committed result files, the limits they meet, and the pages made from them.
bench-check: $(STAMP)
	$(PYTEST) benchmarks/checks

# Ten minutes of coverage-guided fuzzing for each reader; FUZZ_SECONDS=60 for a short look.
FUZZ_SECONDS ?= 600
fuzz: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[fuzz]'
	$(BIN)/python -m fuzz --seconds $(FUZZ_SECONDS)

clean:
	rm -rf $(VENV) fedsift-demo site build dist src/*.egg-info

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "fedsift needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

# make demo   set up .venv, train on the CPU, write a page of pictures
# make test   set up .venv, then run lint, type checks and all tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test setup bench docs clean
demo: $(VENV)/.demo
	$(BIN)/dmf demo

test: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist worksteal

bench: $(VENV)/.test
	$(BIN)/python bench/training_step.py
	$(BIN)/python bench/sequences.py
	$(BIN)/python bench/estimators.py
	$(BIN)/python bench/throughput.py --sizes 1e6 --batch 64
	$(BIN)/python bench/distributed.py
	$(BIN)/python bench/large_text.py
	$(BIN)/python bench/large_text.py --lines
	$(BIN)/python bench/large_table.py
	$(BIN)/python bench/uniformization.py
	$(BIN)/python bench/two_state_information.py

# README tables, docs/results.md and docs/benchmarks.md, from the JSON under results/; then the site
docs: $(VENV)/.test
	$(BIN)/python -m dmf_reproduction.report.markdown
	$(BIN)/sphinx-build -W -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

setup: $(VENV)/.test

# torch is installed first and alone, so that other packages do not decide which build it is.
# TORCH=... selects another version or a local wheel.
TORCH ?= torch==2.13.0
$(VENV)/.torch:
	$(PYTHON) -c 'import sys; sys.exit("make needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check $(TORCH)
	touch $@

$(VENV)/.demo: $(VENV)/.torch pyproject.toml reproduction/pyproject.toml
	$(BIN)/pip install -q --disable-pip-version-check -e . -e reproduction
	touch $@

$(VENV)/.test: $(VENV)/.demo
	$(BIN)/pip install -q --disable-pip-version-check -e '.[dev]' -e 'reproduction[molecules]'
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache demo docs/_build

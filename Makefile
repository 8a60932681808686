# Every target works from a fresh clone; tools/ does the work, this file only names it.
.PHONY: setup demo test lint docs bench clean

setup:
	@sh tools/setup.sh

demo: setup
	@.venv/bin/python tools/demo.py

test: lint
	@.venv/bin/python -m pytest -q --numprocesses=auto --maxprocesses=4 --dist=worksteal

lint: setup
	@.venv/bin/python -m ruff check .
	@.venv/bin/python -m ruff format --check .
	@.venv/bin/python -m mypy

# What stands on this page is taken from the code.
docs: setup
	@.venv/bin/python tools/settings_page.py > docs/settings.md

bench: setup
	@.venv/bin/python -m bench.run --write

clean:
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache build

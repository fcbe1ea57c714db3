# check: what a change should pass before it is committed; test: everything.
.PHONY: check test

check:
	ruff check .
	mypy
	python -m pytest -m "not slow"

test:
	python -m pytest

# check: what a change should pass before it is committed; test: everything; compat: the quick tests with each release
# of MindSpore that is supported, in environments of their own below .venv-compat/.
.PHONY: check test compat
RELEASES = 2.8.0 2.9.0 2.10.0

check:
	ruff check .
	mypy
	python -m pytest -m "not slow"

test:
	python -m pytest

compat: $(RELEASES:%=compat-%)

compat-%:
	python3 -m venv .venv-compat/$*
	.venv-compat/$*/bin/pip install --quiet mindspore==$* -r requirements-dev.txt
	.venv-compat/$*/bin/python -m pytest -m "not slow"

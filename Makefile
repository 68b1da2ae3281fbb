# Everything is set up by itself; Python 3.11 or newer and make are all that must be there.
PYTHON ?= python3
VENV ?= .venv
READY := $(VENV)/ready

.PHONY: help setup demo test check format clean

help:
	@echo "make demo    train two small networks on the built-in digits and attack both, in about a minute"
	@echo "make test    format, lint, types and tests, as CI runs them"
	@echo "make format  put the code in form"
	@echo "make clean   remove the virtual environment and all caches"

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0] + "; run make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,onnx]'
	@touch $@

demo: $(READY)
	$(VENV)/bin/gamagat demo

test check: $(READY)
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" scripts/check

format: $(READY)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis

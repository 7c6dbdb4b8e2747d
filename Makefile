PYTHON ?= python3
VENV ?= .venv
# Exact versions that the tests pass with: for Python 3.11, and the newest for newer ones.
version = $(shell $(1) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
FOUND := $(call version,$(or $(wildcard $(VENV)/bin/python),$(PYTHON)))
CONSTRAINTS := $(if $(filter 3.11,$(FOUND)),constraints.txt,constraints-newest.txt)
PIP := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS)
RUN := $(VENV)/bin/python
CHROMIUM := /usr/bin/chromium
REQUIREMENTS := requirements.txt $(CONSTRAINTS) pyproject.toml

ifneq ($(filter-out clean help,$(or $(MAKECMDGOALS),help)),)
ifneq ($(origin PYTHON),file)
ifneq ($(call version,$(PYTHON)),$(FOUND))
$(error $(VENV) has Python $(FOUND), not that of PYTHON=$(PYTHON); `make clean` first, or add VENV=another folder)
endif
endif
endif

.PHONY: help demo page docs test test-slow test-page lint format clean
.DELETE_ON_ERROR:

help:  ## list these commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/.core  ## set up, then show the main result
	$(RUN) eval.py demo --out runs/demo.png

page: $(VENV)/.page  ## open the denoiser as a web page on this computer
	$(RUN) denoise.py --page

docs: $(VENV)/.docs  ## build the site of the documentation in runs/site
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --quiet
	@echo "open runs/site/index.html, or run \`$(RUN) -m mkdocs serve\` to search it too"

test: $(VENV)/.dev lint  ## set up, then lint and run the tests
	$(RUN) -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"

test-slow: $(VENV)/.dev  ## the long tests too
	$(RUN) -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test-page: $(VENV)/.dev $(VENV)/.browser  ## test the web page in Chromium
	$(RUN) -m pytest tests/page

lint: $(VENV)/.dev  ## check style and types without changing a file
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy

format: $(VENV)/.dev  ## rewrite the files in the project's style
	$(RUN) -m ruff format .
	$(RUN) -m ruff check --fix .

clean:  ## remove what the other commands made
	rm -rf $(VENV) runs/demo.png runs/site build *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis

# A stamp file per set of packages: made anew when its requirements change.
$(VENV)/.core: $(REQUIREMENTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) -r requirements.txt -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core $(wildcard requirements/*.txt)
	@$(RUN) -c 'import sys; sys.exit(sys.version_info >= (3, 14) and "TensorFlow 2.21 needs Python 3.13 or older; run make clean, then set PYTHON=...")'
	$(PIP) -r requirements/train.txt -r requirements/eval.txt -r requirements/export.txt -r requirements/dev.txt
	@touch $@

$(VENV)/.page: $(VENV)/.core requirements/page.txt
	$(PIP) -r requirements/page.txt
	@touch $@

$(VENV)/.docs: $(VENV)/.core requirements/docs.txt
	$(PIP) -r requirements/docs.txt
	@touch $@

$(VENV)/.browser: $(VENV)/.page requirements/browser.txt
	@test -x $(CHROMIUM) || test "$$(id -u)" = 0 || { echo "install Chromium first, as root: apt-get install chromium" >&2; exit 2; }
	test -x $(CHROMIUM) || { apt-get update && apt-get install -y --no-install-recommends chromium; }
	$(PIP) -r requirements/browser.txt
	@touch $@

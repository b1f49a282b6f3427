# Each target sets up what it needs in .venv when it is missing there, or pyproject.toml is newer: `make run` what running
# needs, `make test` the rest as well. Nothing is ever removed from it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN_READY := $(VENV)/.ready-to-run
TEST_READY := $(VENV)/.ready-to-test
DOCS_READY := $(VENV)/.ready-for-docs

# Images of containers often forbid bytecode. Without it each of the hundreds of processes that the tests start compiles every
# module that it imports, which takes longer than all the rest it does.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help all-ready run quick test test-all test-gpu supported check docs reference pictures quickly linted tested collected compiled checked bench bench-groups bench-features bench-ingest ablation bench-gpu bench-pq-gpu bench-cliques-gpu bench-rapids compare-tiers flow-gpu audit release-check clean

help:
	@echo "make run       the maximal bicliques of two real graphs: tables, reports, the most interesting groups"
	@echo "make quick     ruff, mypy, and the tests of engines and readers on small graphs: a minute, once compiled"
	@echo "make test      checks and tests"
	@echo "make test-all  the slow tests too"
	@echo "make test-gpu  what needs a GPU, several tests at once; needs the extras cuda and pytest-xdist"
	@echo "make supported oldest and newest versions of all dependencies, under Python 3.11 to 3.14"
	@echo "make check     ruff, mypy, import-linter, prose and links of the documentation"
	@echo "make docs      the documentation as a site, below build/docs/html"
	@echo "make reference the pages of the reference that are written from the code"
	@echo "make pictures  the pictures of the guide to investigations; needs Chromium"
	@echo "make audit     known vulnerabilities of the installed packages, by pip-audit; needs the network"
	@echo "make release-check  wheel, sdist and bill of materials below dist/, and tests of them; needs the network"
	@echo "make bench     times beside the published programs' (needs the benchmark graphs: benchmarks/README.md)"
	@echo "make bench-groups  groups on labelled and planted graphs, beside FRAUDAR and others (needs the labelled graphs)"
	@echo "make bench-features  gradient boosting on accounts with and without our columns (needs the labelled graphs)"
	@echo "make bench-ingest  reading up to 100 million edges, stage by stage, beside DuckDB and Polars"
	@echo "make ablation  what each technique of the CPU engine is worth, on the same graphs"
	@echo "make bench-gpu the same on a GPU, with the Python that holds the extra cuda: make bench-gpu PYTHON=python3"
	@echo "make bench-pq-gpu   counts of (p, q)-bicliques on a GPU, beside GBC, and without each technique; the same Python"
	@echo "make bench-cliques-gpu  maximal cliques on a GPU, beside RDMCE and mce-gpu; the same Python"
	@echo "make bench-rapids   from Parquet to published Parquet on a GPU; needs the extra rapids-cu13 or rapids-cu12"
	@echo "make compare-tiers  every table of a dozen graphs, published by the CPU and by RAPIDS; needs the same"
	@echo "make flow-gpu       one graph through the Prefect flow on a GPU, tasks and artifacts printed; and the extra flows"

$(RUN_READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$$($(PYTHON) --version) is too old: Python 3.11 or later is needed; make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) tools/install.py $(VENV) --editable .
	@touch $@

TESTED := --editable '.[flows]' --group dev --group cuda-compile
$(TEST_READY): $(RUN_READY)
	@$(PYTHON) tools/install.py $(VENV) $(TESTED)
	@touch $@

$(DOCS_READY): $(TEST_READY)
	@$(PYTHON) tools/install.py $(VENV) --group docs
	@touch $@

# On a new machine: all of it at once takes half as long as one after the other.
all-ready:
	@$(PYTHON) tools/install.py $(VENV) $(TESTED) --group docs
	@touch $(RUN_READY) $(TEST_READY) $(DOCS_READY)

run: $(RUN_READY)
	@echo "looking for what is to be compiled"
	@$(BIN)/mbe compile --problem bicliques
	@echo "enumerating two real graphs"
	@$(BIN)/mbe demo

# For everyday work: the reference and the CPU engines on small graphs, readers, and whole runs.
QUICK := tests/mbe_stage/test_csr.py tests/mbe_stage/test_engines.py tests/mbe_stage/test_enumerate.py \
	tests/mbe_stage/cliques/test_cliques.py tests/mbe_stage/pq_counts/test_counts.py \
	tests/pipeline/test_io_formats.py tests/pipeline/test_ingest.py tests/pipeline/test_sources.py \
	tests/pipeline/test_bad_input.py tests/pipeline/test_tables.py tests/pipeline/test_run.py

quick: $(TEST_READY)
	$(BIN)/mbe compile
	$(MAKE) --no-print-directory --jobs=2 --output-sync quickly linted

quickly: $(TEST_READY)
	$(BIN)/python -m pytest -q $(QUICK)

linted: $(TEST_READY)
	$(BIN)/ruff check .
	$(BIN)/mypy

check: $(TEST_READY) docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@# As it is installed, with pipeline/ and flows/ inside: import-linter follows no links.
	@rm -rf build/layers && mkdir -p build/layers && tar -c -h --exclude=__pycache__ mbe_stage | tar -x -C build/layers
	cd build/layers && $(CURDIR)/$(BIN)/lint-imports --config ../../pyproject.toml

# Sentences, then pages and links: strictly, with no network.
docs: $(DOCS_READY)
	$(BIN)/python tools/prose.py
	$(BIN)/python tools/site.py

reference: $(TEST_READY)
	$(BIN)/python -m tools.reference

pictures: $(TEST_READY)
	MBE_PICTURES=docs/images $(BIN)/python -m pytest -q -n 0 tests/pipeline/cases/test_walk.py

# Checks take the cores that the tests leave idle, and are shown after them.
CHECKED := build/checked.txt

test: $(DOCS_READY)
	@mkdir -p $(dir $(CHECKED))
	@$(MAKE) --no-print-directory --jobs=3 tested checked; code=$$?; cat $(CHECKED); exit $$code

# Three processes for the tests on two cores: some tests wait for what they have started.
tested: compiled collected
	$(BIN)/python -m pytest -n 3 --dist worksteal

# Rewrites the assertions of all modules once, not in each process. What cannot be imported is said by the tests.
collected: $(TEST_READY)
	@$(BIN)/python -m pytest --collect-only -q > /dev/null || true

# Compiled once, for all processes of the tests: each would do it for itself, and those that are ended never be done.
compiled: $(TEST_READY)
	$(BIN)/mbe compile

checked: $(DOCS_READY)
	@nice $(MAKE) --no-print-directory check > $(CHECKED) 2>&1

test-all: check
	$(BIN)/mbe compile
	$(BIN)/python -m pytest -m 'not gpu'

# Idle processes take tests from busy ones: the long ones stand first in each file.
test-gpu:
	$(PYTHON) -m pytest -m gpu -n 8 --dist worksteal tests/mbe_stage tests/pipeline/test_resume_gpu.py

bench: $(TEST_READY)
	$(BIN)/python benchmarks/bench.py

bench-groups: $(TEST_READY)
	$(BIN)/python -m benchmarks.groups

bench-features: $(TEST_READY)
	@$(PYTHON) tools/install.py $(VENV) --group bench
	$(BIN)/python -m benchmarks.groups.features

bench-ingest: $(TEST_READY)
	$(BIN)/python -m benchmarks.ingest

ablation: $(TEST_READY)
	$(BIN)/python -m benchmarks.ablation

bench-gpu:
	$(PYTHON) benchmarks/bench_gpu.py

bench-pq-gpu:
	$(PYTHON) -m benchmarks.pq_gpu --tables --ablation

bench-cliques-gpu:
	$(PYTHON) -m benchmarks.cliques_gpu --members

bench-rapids:
	$(PYTHON) benchmarks/bench_rapids.py

compare-tiers:
	$(PYTHON) benchmarks/compare_tiers.py

flow-gpu:
	$(PYTHON) benchmarks/flow_run.py

# SETS=3.12-newest for one of them.
supported: $(TEST_READY)
	@$(PYTHON) tools/install.py $(VENV) --group supported
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tools/supported.py $(SETS)

# What is installed, but for mbe-stage itself, which no index has.
audit: $(TEST_READY)
	@$(PYTHON) tools/install.py $(VENV) --group audit
	$(BIN)/python -m pip freeze --exclude-editable > $(VENV)/audited.txt
	$(BIN)/pip-audit --strict --no-deps --disable-pip --requirement $(VENV)/audited.txt

release-check: $(TEST_READY)
	@$(PYTHON) tools/install.py $(VENV) --group release
	$(BIN)/python tools/release_check.py

clean:
	rm -rf $(VENV) out build dist *.egg-info

# On a fresh machine with Python >= 3.11 and make: `make demo`, `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
COMPILED := setup.py $(wildcard probe/ring/*.pxd) probe/recorder/spawn_thread.c $(shell grep -rl --include=*.py '^# cython:' probe)
RUN := OMP_NUM_THREADS=2 $(BIN)/python
# Where it is set, each of the hundreds of processes of the tests compiles all modules again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-full test-oldest lint docs system bench gpu prove build clean

# torch first, by its exact version: a machine without CUDA must not pull gigabytes of it.
$(STAMP): pyproject.toml constraints.txt $(COMPILED)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "phasewatt needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev,examples,bench,dashboard,exporters,frameworks,reports,search,techniques,trackers]'
	touch $@

# What the demo needs and no more, unless everything is there already.
DEMO := $(VENV)/.demo
$(DEMO): pyproject.toml constraints.txt $(COMPILED)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "phasewatt needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -e $(STAMP) || { began=$$(date +%s); \
	$(BIN)/python -m pip install --quiet "$$(grep '^torch==' constraints.txt)"; \
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[demo]'; \
	echo "installed in $$(($$(date +%s) - began)) s: $$(du -sh $(VENV) | cut -f1), torch among it"; }
	@touch $@

demo: $(DEMO)
	@$(RUN) -m probe demo
	@echo
	@echo "And what a change gained: the same small training with and without two techniques."
	@$(RUN) examples/03_did_it_pay.py
	@echo "all runs        $(BIN)/probe ls"
	@echo "one of them     $(BIN)/probe report latest"
	@echo "in a browser    $(BIN)/pip install -e '.[dashboard]' && $(BIN)/probe dashboard"
	@echo "what is here    $(BIN)/probe doctor"
	@echo "next            $(BIN)/probe run -- python your_script.py"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/codespell probe optimizers exporters dashboard tests benchmarks examples docs *.md
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site in build/site. A broken link, anchor or directive fails it; nothing of it asks another host.
DOCS := $(VENV)/.docs
$(DOCS): $(STAMP)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	@touch $@

docs: $(DOCS)
	@$(RUN) -m docs.site

# Three workers share two cores, as some tests wait. The paced ones, which mostly wait and look at times, run beside the
# others, which take the processors only when no paced test wants them (SCHED_IDLE). At last come those that measure a
# processor's time, one by one. Of paced and alone only the files are read that have any. Each test gets one thread:
# OpenMP's threads wait for each other by spinning, which takes ten times as long on a shared core.
# The results of every run stay in build/: tests/count_green.py. What a worker wrote before it died is shown at the end.
RESULTS = build/junit-$(shell date +%Y%m%d-%H%M%S)
PYTEST := $(BIN)/python -m pytest
MARKED = $(shell grep -rl 'mark\.$(1)' tests --include='test_*.py')
SHARED := -n 3 --dist loadgroup -m "not gpu and not alone and not paced and not full"
PACED := -n 3 --dist loadgroup -m "paced and not gpu and not full" $(call MARKED,paced)
ALONE := -m "alone and not gpu and not full" $(call MARKED,alone)
# Some containers forbid it.
WHEN_IDLE := $(shell chrt --idle 0 true 2>/dev/null && echo chrt --idle 0)
test: $(STAMP) system
	@mkdir -p build; failed=0; \
	$(WHEN_IDLE) $(MAKE) --no-print-directory lint >build/lint.txt 2>&1 & lint=$$!; \
	OMP_NUM_THREADS=1 $(PYTEST) $(PACED) --junitxml=$(RESULTS)-paced.xml >build/paced.txt 2>&1 & paced=$$!; \
	OMP_NUM_THREADS=1 $(WHEN_IDLE) $(PYTEST) $(SHARED) --junitxml=$(RESULTS)-shared.xml 2>build/stderr.txt \
	    || { failed=$$?; cat build/stderr.txt; }; \
	wait $$lint || { failed=$$?; cat build/lint.txt; }; \
	wait $$paced || failed=$$?; cat build/paced.txt; \
	$(PYTEST) $(ALONE) --junitxml=$(RESULTS)-alone.xml || failed=$$?; \
	exit $$failed

FRAMEWORKS := $(VENV)/.frameworks
$(FRAMEWORKS): $(STAMP)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[more_frameworks]'
	@touch $@

# All that `make test` leaves out: frameworks, the wheel, plain Python, more sizes and appearances.
# The core, without torch, on the other Pythons that this machine has: test-core-python3.12.
PYTHONS ?= $(foreach p,python3.12 python3.13,$(shell $(p) -c 'print("$(p)")' 2>/dev/null))
test-full: $(STAMP) $(DOCS) $(FRAMEWORKS) system $(PYTHONS:%=test-core-%) test-oldest
	@mkdir -p build; failed=0; \
	OMP_NUM_THREADS=1 $(PYTEST) $(subst not full,full,$(SHARED)) --junitxml=$(RESULTS)-full-shared.xml || failed=$$?; \
	OMP_NUM_THREADS=1 $(PYTEST) $(subst not full,full,$(PACED)) --junitxml=$(RESULTS)-full-paced.xml || failed=$$?; \
	$(PYTEST) $(subst not full,full,$(ALONE)) --junitxml=$(RESULTS)-full-alone.xml || failed=$$?; \
	exit $$failed

CORE := tests/unit/probe $(wildcard tests/unit/test_*.py) tests/integration/recording
test-core-%:
	test -x .venv-$*/bin/python || $* -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet -c constraints.txt -e '.[dev,reports]'
	@mkdir -p build
	OMP_NUM_THREADS=1 .venv-$*/bin/python -m pytest $(SHARED) $(CORE) --junitxml=$(RESULTS)-$*.xml

# The entries under the oldest releases of their frameworks.
test-oldest:
	test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet "$$(grep '^torch==' constraints.txt)"
	.venv-oldest/bin/python -m pip install --quiet -r tests/oldest_frameworks.txt -e '.[dev]'
	@mkdir -p build
	OMP_NUM_THREADS=1 .venv-oldest/bin/python -m pytest -n 2 tests/integration/stacks/test_integrations.py \
	    -k "stays_the_same or workers_of_ray_are_ranks" --junitxml=$(RESULTS)-oldest.xml

# What the tests of Prometheus, of the HTML report and of several hosts need: installed by apt for root;
# else those tests are skipped and say so.
SYSTEM := prometheus prometheus-pushgateway chromium poppler-utils iproute2
system:
	@missing=; for one in prometheus prometheus-pushgateway chromium pdftoppm ip; do \
	  command -v $$one >/dev/null || missing=1; done; \
	if [ -z "$$missing" ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  (apt-get update -q && apt-get install -y -q --no-install-recommends $(SYSTEM)) >/dev/null 2>&1 \
	    || echo "some tests are skipped: apt-get install $(SYSTEM)"; \
	else echo "some tests are skipped: apt-get install $(SYSTEM)"; fi

bench: $(STAMP)
	$(RUN) -m benchmarks.cost.startup
	$(RUN) -m benchmarks.cost.overhead
	$(RUN) -m benchmarks.cost.recorder
	$(RUN) -m benchmarks.cost.recorder --steps 1000000
	$(RUN) -m benchmarks.cost.scrape
	$(RUN) -m benchmarks.long_runs.report_1day

# What a machine with a card should be asked: stages of eight minutes at most, each with a file of its own.
gpu: $(STAMP)
	$(RUN) -m benchmarks.gpu

prove: $(STAMP)
	$(BIN)/python -m benchmarks.prove

build: $(STAMP)
	$(BIN)/python -m build --no-isolation

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache

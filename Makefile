# Two commands do everything: `make run` sets up and runs the main job, `make test` sets up and passes the tests.
# `make test-all` runs all tests: also the long series on real processes, containers, a browser, and long random ones.

# The Python that the environment is made with. One that was compiled without its optimisations, as pyenv does it, takes
# a third longer for everything: then the system's own is taken, if it is new enough and can make an environment.
SLOW = import sys, sysconfig as s; sys.exit(sys.base_prefix == "/usr" or "--enable-opt" in str(s.get_config_var("CONFIG_ARGS")))
FIT = import sys, ensurepip; sys.exit(sys.version_info < (3, 11))
SYSTEM = /usr/bin/python3
PYTHON ?= $(shell python3 -c '$(SLOW)' 2>/dev/null && $(SYSTEM) -c '$(FIT)' 2>/dev/null && echo $(SYSTEM) || echo python3)

VENV := .venv
BIN := $(VENV)/bin

# What one worker compiles, and pytest rewrites, the others are to read.
export PYTHONDONTWRITEBYTECODE =

WORKERS = 3
PYTEST = $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --durations 20 --durations-min 10

.PHONY: run test test-all test-rest images check format bench mutants clean

run: $(VENV)/.base
	$(BIN)/lab setup
	$(BIN)/lab run partition-clockjump

test: $(VENV)/.dev
	$(BIN)/lab setup
	$(BIN)/python -m compileall -q -j 0 lab checker  # once, and not in each of a thousand processes
	$(PYTEST) -m "not full" --hypothesis-profile half  # half of the examples that make test-all tries

test-all: $(VENV)/.dev
	$(BIN)/lab setup
	$(BIN)/python -m compileall -q -j 0 lab checker
	$(PYTEST)

# What `make test` leaves out; .ci/run calls both.
test-rest: WORKERS = 4  # many of these tests wait: for leases, servers, containers
test-rest: $(VENV)/.dev
	$(BIN)/lab setup
	$(BIN)/python -m compileall -q -j 0 lab checker
	$(PYTEST) -m full

# For `lab run --on docker`: needs a container engine.
images: $(VENV)/.dev
	$(BIN)/lab images build

check: $(VENV)/.dev
	$(BIN)/python -m pytest tests/rules

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.checker_scale
	$(BIN)/python -m benchmarks.checker_vs_porcupine
	$(BIN)/python -m benchmarks.sim
	$(BIN)/python -m benchmarks.search
	$(BIN)/lab setup
	$(BIN)/python -m benchmarks.split_vote --rounds 10
	$(BIN)/python -m benchmarks.persistence --rounds 5
	$(BIN)/python -m benchmarks.consensus --rounds 5
	$(BIN)/python -m benchmarks.peers
	$(BIN)/python -m benchmarks.docker_up

# What the checker's tests would let pass (docs/mutation.md): `make mutants MUTANTS='--only checker/history/windows.py --count 50'`.
mutants: $(VENV)/.dev
	$(BIN)/python -m tests.mutation trace
	$(BIN)/python -m tests.mutation try $(MUTANTS)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis mutants

# Exactly the versions that are tested, also of what builds the package: pip reads that from the environment only.
INSTALL = PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt \
  $(BIN)/pip install --quiet --disable-pip-version-check --editable

$(VENV)/.base: pyproject.toml constraints.txt | $(VENV)/bin/pip
	$(INSTALL) .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/pip
	$(INSTALL) '.[dev]'
	@touch $(VENV)/.base $@

$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $(PYTHON) is older than 3.11"; echo "  hint: make PYTHON=python3.11 …"; exit 2; } >&2
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	  { echo "error: $(PYTHON) has no ensurepip, so it cannot make a virtual environment"; \
	    echo "  hint: install it (Debian: apt install python3-venv)"; exit 2; } >&2
	$(PYTHON) -m venv $(VENV)

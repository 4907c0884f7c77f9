# Each target makes the environment that it needs; nothing but Python >= 3.11, pip and a C
# compiler has to be there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable
JOBS ?= 2
GIB ?= 2
MEMORY ?= 256 MiB
DEVICE ?= opencl:0
DEVICE_TESTS := tests/devices tests/loops/test_devices.py tests/behaviour/test_limits.py \
  tests/plan/test_versions.py tests/passes/test_contract.py

.PHONY: demo test test-all test-device lint bench bench-device golden clean
.DELETE_ON_ERROR:

demo: $(VENV)/installed-demo
	$(BIN)/weft demo --gib "$(GIB)" --memory "$(MEMORY)" --out demo-data

test: $(VENV)/installed-test
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal $(ARGS)

test-all: $(VENV)/installed-test
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "slow or not slow" $(ARGS)

# The tests of devices, on another one than PoCL: make test-device DEVICE=cuda:0
test-device: $(VENV)/installed-test $(if $(filter cuda:%,$(DEVICE)),$(VENV)/installed-cuda)
	WEFT_TEST_DEVICE=$(DEVICE) $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal \
	  $(DEVICE_TESTS) $(ARGS)

lint: $(VENV)/installed-dev
	$(BIN)/ruff check src tests examples
	$(BIN)/mypy

bench: $(VENV)/installed-bench
	$(BIN)/python bench/run.py $(or $(ARGS),all)

# What is measured of devices, on another one than PoCL: make bench-device DEVICE=cuda:0
bench-device: $(VENV)/installed-bench $(if $(filter cuda:%,$(DEVICE)),$(VENV)/installed-cuda)
	$(BIN)/python bench/run.py streaming --device $(DEVICE) $(ARGS)
	$(BIN)/python bench/run.py tiling --device $(DEVICE)
	$(BIN)/python bench/run.py gpu --device $(DEVICE)

# Writes the expected texts of golden tests anew; look at the difference before committing it.
golden: $(VENV)/installed-test
	$(BIN)/python -m pytest -q --update-golden $(ARGS)

clean:
	rm -rf $(VENV) demo-data build dist .pytest_cache .mypy_cache .ruff_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Weft needs Python 3.11 or later; name one with make PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One stamp for each extra, so that every target installs only what it needs.
$(VENV)/installed-%: pyproject.toml | $(BIN)/python
	$(INSTALL) ".[$*]"
	@touch $@

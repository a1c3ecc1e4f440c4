# make help lists the targets. Each sets up .venv first (.ci/setup), which takes no time once it is there.
SHELL := bash
PYTHON ?=
ARGS ?=
BIN := .venv/bin
DEMO := demo/model/rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx

.PHONY: help setup demo test check clean
.DEFAULT_GOAL := help

help: ## List the targets
	@grep -E '^[a-z]+: .*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 14

setup: ## Create .venv with egraph-opt and its tools
	@PYTHON='$(PYTHON)' .ci/setup

demo: setup $(DEMO) ## Optimize a text-direction classifier and verify the result
	@echo "demo: optimizing $(notdir $(DEMO)) (0.6 MB), verifying and timing the result"
	$(BIN)/egraph-opt optimize $(DEMO) -o demo/cls.optimized.onnx --measure-shape x:1,3,48,192

# The package is wanted for the file in it alone; that it refuses Python 3.13 does not matter.
$(DEMO): | setup
	@echo "demo: fetching the model out of the PyPI package rapidocr-onnxruntime 1.4.4 (15 MB, Apache-2.0)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --ignore-requires-python --upgrade \
		--target demo/model rapidocr-onnxruntime==1.4.4

test: setup ## Run the tests; ARGS="tests/ops -k conv" runs some
	@echo "test: pytest -n 2 $(ARGS)"
	@$(BIN)/python -m pytest -n 2 $(ARGS)

check: setup ## Lint, format check, types, order of the rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PATH="$(CURDIR)/$(BIN):$$PATH" PYRIGHT_PYTHON_IGNORE_WARNINGS=1 pyright
	$(BIN)/lint-imports

clean: ## Remove .venv, the demo's files and caches
	rm -rf .venv demo build dist *.egg-info .pytest_cache .ruff_cache .import_linter_cache

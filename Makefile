# More cores: make build JOBS=8. Another LibTorch: make build KEEL_TORCH=/path/to/torch.

JOBS ?= 2
compile := cmake --build build --parallel $(JOBS) --target

.PHONY: build quickstart docs test test-full longer-limits test-integrations test-crash test-gpu bench bench-step bench-trl bench-rollout bench-update bench-head bench-learning format clean bootstrap bootstrap-tests configure gpu
.NOTPARALLEL:

build: configure
	@$(compile) keel_cli keel_python

quickstart: configure
	@$(compile) keel_cli
	@build/keel quickstart

# The site of docs/, in build/site.
docs: configure
	@$(compile) keel_cli
	@scripts/python.sh tests/parity/packages.py mkdocs
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=.deps/peers/mkdocs scripts/python.sh -m mkdocs build --strict --quiet

# Runs two tests more than jobs, because many wait for a time limit or another program.
test: bootstrap-tests configure
	@$(compile) all cuda_kernels
	@ctest --test-dir build --parallel $$(($(JOBS) + 2)) --output-on-failure --label-exclude gpu --output-junit Testing/entries.xml; \
	code=$$?; python3 scripts/slowest_tests.py build/Testing/entries.xml; exit $$code

# Runs every sweep at its full length: for releases.
test-full: export KEEL_TEST_FULL = 1
test-full: longer-limits test

longer-limits: configure
	@cmake build > /dev/null

# Runs Keel inside TRL's trainer and verl's actor at full length; make test has a short form.
test-integrations: export KEEL_TEST_FULL = 1
test-integrations: bootstrap-tests longer-limits
	@$(compile) keel_cli keel_python
	@ctest --test-dir build --output-on-failure --no-tests=error --tests-regex '^integrations/|^with_(trl|verl)'

# Other counts: make test-crash KILLS=900 FLIPS=100. Some kinds only: make test-crash KINDS="kills signals".
test-crash: configure
	@$(compile) keel_cli
	@scripts/python.sh tests/crash/run.py --jobs $(JOBS)

test-gpu: gpu configure
	@$(compile) keel_cli keel_gpu_tests
	@ctest --test-dir build --output-on-failure --label-regex gpu

bench: configure
	@$(compile) bench_programs
	@for program in build/bench/bin/*; do echo "== $$program"; $$program || exit 1; done

bench-step: configure
	@$(compile) bench_step
	@build/bench/bin/step

bench-trl: configure
	@$(compile) bench_vs_trl_keel
	@bench/vs_trl/setup.sh
	@.deps/trl/bin/python bench/vs_trl/run.py --keel build/bench/vs_trl_keel

# Compares sampling with Hugging Face's generate.
bench-rollout: configure
	@$(compile) bench_vs_generate_keel
	@bench/vs_trl/setup.sh
	@.deps/trl/bin/python bench/vs_generate/run.py

bench-update: configure
	@$(compile) bench_vs_update_keel
	@bench/vs_trl/setup.sh
	@.deps/trl/bin/python bench/vs_update/run.py

# Compares the LM head with plain PyTorch and Liger.
bench-head: configure
	@$(compile) bench_vs_head_keel
	@bench/vs_trl/setup.sh
	@.deps/trl/bin/python bench/vs_head/run.py

# Compares what a model learns with TRL's GRPOTrainer. On a GPU it starts from SmolLM2-135M-Instruct.
bench-learning: configure
	@$(compile) keel_cli
	@bench/vs_trl/setup.sh
	@! nvidia-smi -L > /dev/null 2>&1 || scripts/python.sh tests/parity/packages.py gguf
	@.deps/trl/bin/python bench/learning/run.py

format:
	@scripts/bootstrap.sh --format
	@git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cpp' '*.cu' '*.cuh' | xargs -0 -r clang-format -i

clean:
	@rm -rf build build-*

bootstrap:
	@scripts/bootstrap.sh

bootstrap-tests:
	@scripts/bootstrap.sh --tests

gpu:
	@nvidia-smi -L 2>/dev/null || { echo "No NVIDIA GPU found (nvidia-smi -L lists none); nothing was tested." >&2; exit 1; }

# One build folder, so that `make test` after `make quickstart` compiles only the tests.
configure: bootstrap
	@[ -f build/build.ninja ] && [ -z "$$KEEL_TORCH" ] || cmake --preset release

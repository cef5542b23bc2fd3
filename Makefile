# The commands of a user and of a contributor. `make` lists them.

BUILD := build/release
CONFIGURE := cmake --preset release
PROGRAMS_ONLY := -DLOCKSTEP_BUILD_TESTS=OFF -DLOCKSTEP_BUILD_BENCHMARKS=OFF
JOBS := $(shell nproc)
# Many tests mostly wait, so CTest runs more tests than cores.
TEST_JOBS := $(shell echo $$(($(JOBS) + 4)))
MAKEFLAGS += --no-print-directory

# Targets run one after another, because they share the package installation. Ninja and CTest run in parallel.
.NOTPARALLEL:

.PHONY: help
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

## make demo        install the missing packages, build lockstep, and train a ResNet-20 on 4 replicas in 2 instances
.PHONY: demo
demo:
	@tools/install-packages demo build
	@$(CONFIGURE) $(PROGRAMS_ONLY) >/dev/null
	@cmake --build --preset release --target lockstep lockstep-train
	$(BUILD)/bin/lockstep run --num-replicas 4 --num-instances 2 --print-topology \
	  $(BUILD)/bin/lockstep train --model resnet20 --dataset fashion-mnist --limit-train 14000 \
	  --batch-size 16 --epochs 2 --eval-every 0 --augment flip \
	  --lr 0.05 --nesterov --weight-decay 1e-4 --schedule cosine --warmup-epochs 0.1

## make test        install the missing packages, build, and run every test that this machine supports
# Tests on several hosts use network namespaces, which need root.
IS_ROOT := $(filter 0,$(shell id -u))
.PHONY: test
test: packages-test $(if $(IS_ROOT),packages-hosts) build-with-tests
	ctest --test-dir $(BUILD) $(if $(IS_ROOT),--build-config hosts) -j $(TEST_JOBS) --output-on-failure --no-tests=error
	@$(MAKE) kernels
	@$(if $(IS_ROOT),,echo "The tests on several hosts were skipped, because they need root: sudo make test-hosts")

## make headers     compile each header alone, so that a missing #include is an error
.PHONY: headers
headers: packages-build packages-test
	@cmake -S tests/build/headers -B build/headers -G Ninja -DSOURCE_DIR=$(CURDIR) >/dev/null
	@cmake --build build/headers

## make kernels     compile the kernels for NVIDIA GPUs, if nvcc is installed
NVCC := $(shell command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
.PHONY: kernels
kernels: packages-build
	@if [ -z "$(NVCC)" ]; then echo "make kernels: skipped, because nvcc is not installed"; else \
	  cmake --preset cuda -B build/kernels $(PROGRAMS_ONLY) -DCMAKE_CUDA_COMPILER=$(NVCC) \
	    -DCMAKE_OPTIMIZE_DEPENDENCIES=ON -DLOCKSTEP_WITH_TORCH=OFF >/dev/null && \
	  cmake --build build/kernels -j $(JOBS) --target lockstep_gpu; fi

## make deb         build the Debian packages into build/deb, and check them with lintian
## make test-packages  install the packages into a clean Debian, use them and remove them (needs root)
.PHONY: deb test-packages
deb: packages-build packages-deb
	@tools/build-packages
test-packages: deb packages-test-packages
	tests/packages/run.sh build/deb build/test-packages

## make build-gpu   build into build/cuda, for NVIDIA GPUs, against a libtorch with CUDA (TORCH=FOLDER)
## make test-gpu    build the tests too, and run those that need a GPU
CONFIGURE_GPU := cmake --preset cuda $(if $(TORCH),-DCMAKE_PREFIX_PATH=$(TORCH))
.PHONY: test-gpu build-gpu build-gpu-with-tests
build-gpu:
	@$(CONFIGURE_GPU) $(PROGRAMS_ONLY) >/dev/null
	@cmake --build --preset cuda -j $(JOBS)
build-gpu-with-tests:
	@$(CONFIGURE_GPU) -DLOCKSTEP_BUILD_TESTS=ON -DLOCKSTEP_BUILD_BENCHMARKS=ON >/dev/null
	@cmake --build --preset cuda -j $(JOBS)
test-gpu: build-gpu-with-tests
	ctest --test-dir build/cuda --label-regex gpu --output-on-failure --no-tests=error

## make test-gpu-slow  train for minutes on a GPU and check the accuracy (needs Debian's dataset-fashion-mnist)
.PHONY: test-gpu-slow
test-gpu-slow: build-gpu-with-tests
	build/cuda/tests/cli_slow_tests --gtest_filter='*OnAGpu'

## make bench-gpu   compare lockstep with the PyTorch of python3 on this machine's GPU
.PHONY: bench-gpu
bench-gpu: build-gpu
	python3 bench/gpu/compare.py --lockstep build/cuda/bin/lockstep

## make test-hosts  run the tests on several hosts, which are network namespaces (needs root)
.PHONY: test-hosts
test-hosts: packages-test packages-hosts build-with-tests
	ctest --test-dir $(BUILD) -j $(TEST_JOBS) --build-config hosts --label-regex hosts --output-on-failure --no-tests=error

## make test-slow   run the tests that train for minutes and check the accuracy
.PHONY: test-slow
test-slow: packages-test build-with-tests
	ctest --test-dir $(BUILD) --build-config slow --label-regex slow --verbose --no-tests=error

## make contract    compare the digests of all layouts; make test compares some (SIZE=200 samples per run)
.PHONY: contract
contract: packages-test build
	tests/contract/run.sh $(BUILD)/bin

## make chaos       kill, stop and resume trainings at random moments, hundreds of times (SEED=1)
SEED := 1
.PHONY: chaos
chaos: packages-test build-with-tests
	LOCKSTEP_CHAOS_SEED=$(SEED) LOCKSTEP_CHAOS_RUNS=kill=100,stop=30,launcher=30,chaos=20 \
	  $(BUILD)/tests/cli_fault_tests \
	  --gtest_filter='TrainRecoveryTest.*Killed*:TrainRecoveryTest.*Stopped*:TrainRecoveryTest.*Faults*'

## make build       install the missing packages, and build into build/release
.PHONY: build
build: packages-build
	@$(CONFIGURE) -DLOCKSTEP_BUILD_TESTS=OFF -DLOCKSTEP_BUILD_BENCHMARKS=ON >/dev/null
	@cmake --build --preset release

.PHONY: build-with-tests
build-with-tests: packages-build packages-test
	@$(CONFIGURE) -DLOCKSTEP_BUILD_TESTS=ON -DLOCKSTEP_BUILD_BENCHMARKS=ON >/dev/null
	@cmake --build --preset release

## make bench       measure lockstep and the installed peers on this machine
.PHONY: bench
bench: packages-test build
	@cmake --build --preset release --target micro-benchmarks
	$(BUILD)/bin/lockstep bench launch
	$(BUILD)/bin/lockstep bench comm
	$(BUILD)/bin/lockstep bench data --against torch
	$(BUILD)/bin/lockstep bench train
	$(BUILD)/bin/lockstep bench train --against torch
	$(BUILD)/bin/lockstep bench pipeline
	$(BUILD)/bench/output_bench
	$(BUILD)/bench/transform_bench
	$(BUILD)/bench/monitor/status_bench
	$(BUILD)/bench/nn/batch_norm_bench

## make compare     compare with PyTorch, Gloo and Open MPI (RUNS=5); updates docs/internals/comparison.md and README.md
RUNS := 5
.PHONY: compare
compare: packages-test build
	python3 bench/compare --lockstep $(BUILD)/bin/lockstep --runs $(RUNS) --json build/comparison.json \
	  --output docs/internals/comparison.md --readme README.md

## make test-asan   run the tests under the address and undefined-behaviour sanitizers
## make test-tsan   run the torch-free tests under the thread sanitizer
.PHONY: test-asan test-tsan
test-asan test-tsan: test-%: packages-build packages-test
	@cmake --preset $* >/dev/null
	@cmake --build --preset $* -j $(JOBS)
	ctest --preset $*

## make fuzz        run libFuzzer for 60 s on each file parser
FUZZ_SECONDS := 60
.PHONY: fuzz
fuzz: packages-build packages-test packages-fuzz
	@cmake --preset fuzz >/dev/null
	@cmake --build --preset fuzz -j $(JOBS)
	tests/fuzz/run.sh build/fuzz $(FUZZ_SECONDS)

## make check       format, clang-tidy, cppcheck and the include check
SOURCES = $(shell git ls-files '*.cpp' '*.h')
.PHONY: check
check: packages-build packages-test packages-check
	@clang-format --dry-run -Werror $(SOURCES)
	cmake -D ROOT=. -P cmake/check_includes.cmake
	cppcheck --quiet --error-exitcode=1 --std=c++20 --language=c++ --inline-suppr \
	  --enable=warning,performance,portability --suppress=missingInclude -I . -j $(JOBS) lockstep apps bench examples
	@cmake --preset tidy >/dev/null
	cmake --build --preset tidy -j $(JOBS)

## make docs        build the documentation site into build/docs/html, with the C++ API and all options
.PHONY: docs
docs: packages-docs build
	python3 tools/docs/build_site.py --lockstep $(BUILD)/bin/lockstep --output build/docs

## make tutorial    run all commands of the documentation, and update their output and the images; takes minutes
.PHONY: tutorial
tutorial: packages-demo packages-docs build
	python3 tools/docs/refresh.py --bin $(BUILD)/bin

## make format      format every source
.PHONY: format
format: packages-check
	clang-format -i $(SOURCES)

## make clean       delete the folder build
.PHONY: clean
clean:
	rm -rf build

PACKAGE_LISTS := $(addprefix packages-,$(notdir $(wildcard packages/*)))
.PHONY: $(PACKAGE_LISTS)
$(PACKAGE_LISTS): packages-%:
	@tools/install-packages $*

# Godwit. `make help` lists the targets; every one is safe to repeat.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

GO          ?= go
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
VERSION     := $(shell git describe --tags --always --dirty 2>/dev/null || cat VERSION 2>/dev/null || echo devel)
LDFLAGS     := -s -w -X main.version=$(VERSION)
BUILD       := CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)'

# What can be said on the command line.
DATA     ?= data# where `make run` keeps its data
ARGS     ?=# further arguments of `godwit serve`
TIMEOUT  ?= 10m# of one package's tests
TESTARGS ?=# further arguments of `go test`
RUNS     ?= 20000# random crash runs of `make soak`, in each package that has them
KILLS    ?= 200# times that `make soak` kills the real binary
SEED     ?=# of the crash runs; a new one is drawn and printed if empty
FUZZTIME ?= 60s# for each fuzz target
BENCHARGS ?=# of bench/bench.sh, for example: --peers kafka,godwit -- latency --rounds 1

# The systems that every change must build for.
SYSTEMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

# The packages in which goroutines meet. Only they run under the race detector, which makes tests
# about ten times slower; the pure packages have no goroutines (internal/lint sees to it).
RACE := vfs clock storage journal engine broker gateway app
RACE_PKGS = $(foreach p,$(RACE),$(if $(wildcard internal/$(p)),./internal/$(p)/...))

# The packages whose tests take -crash.runs and -crash.seed.
CRASH_PKGS = $(sort $(dir $(shell grep -rl --include='*_test.go' '"crash\.runs"' internal)))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "Variables: DATA ARGS (run); TIMEOUT TESTARGS (test); RUNS KILLS SEED (soak); FUZZTIME (soak, fuzz); BENCHARGS (bench)"

.PHONY: run
run: build ## build and start a broker on 127.0.0.1:9092 with its data in ./data
	exec bin/godwit serve --data $(DATA) $(ARGS)

.PHONY: build
build: ## build bin/godwit
	$(BUILD) -o bin/godwit ./cmd/godwit

# Two passes: all packages with the dear assertions on, then those with goroutines as they are shipped,
# under the race detector.
.PHONY: test
test: ## run all tests, then those of the concurrent packages under the race detector
	CGO_ENABLED=0 $(GO) test -tags invariants -timeout $(TIMEOUT) $(TESTARGS) ./...
	@if [ -z "$${CI:-}" ] && ! command -v "$$($(GO) env CC)" >/dev/null; then \
		echo "The race detector needs a C compiler and there is none: that pass is left out."; \
	else \
		set -x; CGO_ENABLED=1 $(GO) test -race -timeout $(TIMEOUT) $(TESTARGS) $(RACE_PKGS); \
	fi

.PHONY: lint
lint: lint-format lint-vet lint-static lint-cross lint-rules ## check format, vet, staticcheck, all systems, and the rules of internal/lint

.PHONY: lint-format
lint-format:
	@bad=$$("$$($(GO) env GOROOT)/bin/gofmt" -l $(wildcard cmd internal interop bench)); \
	if [ -n "$$bad" ]; then echo "Not formatted, run gofmt -w on:"; echo "$$bad"; exit 1; fi

.PHONY: lint-vet
lint-vet:
	CGO_ENABLED=0 GOOS=linux $(GO) vet -tags invariants,peers ./...
	CGO_ENABLED=0 GOOS=darwin $(GO) vet ./...

.PHONY: lint-static
lint-static:
	$(GO) run $(STATICCHECK) -tags peers ./...

.PHONY: lint-cross
lint-cross:
	@set -e; for s in $(SYSTEMS); do \
		echo "build for $$s"; CGO_ENABLED=0 GOOS=$${s%/*} GOARCH=$${s#*/} $(GO) build ./...; \
	done

.PHONY: lint-rules
lint-rules:
	$(GO) test $(TESTARGS) ./internal/lint

.PHONY: cross
cross: ## build bin/godwit-SYSTEM-ARCHITECTURE for every system
	@set -e; for s in $(SYSTEMS); do \
		set -x; GOOS=$${s%/*} GOARCH=$${s#*/} $(BUILD) -o bin/godwit-$${s%/*}-$${s#*/} ./cmd/godwit; { set +x; } 2>/dev/null; \
	done

.PHONY: interop
interop: build ## run real clients in every language, and applications through kills, against bin/godwit; and the benchmark against real brokers
	interop/run.sh
	interop/apps.sh -short -seed $(or $(SEED),1)
	interop/peers.sh

.PHONY: bench
bench: build ## measure beside Kafka, RabbitMQ, NATS and Mosquitto; BENCHARGS go to bench/bench.sh
	bench/bench.sh $(BENCHARGS)

.PHONY: bench-table
bench-table: build ## measure memory, start-up and many partitions as well, beside Apache Kafka alone
	bench/run.sh

# Fails at the first crash run that loses something; the output has the seed that replays it.
.PHONY: soak
soak: build ## RUNS crash runs, KILLS kills, applications through many kills, franz-go's own tests in full, every fuzz target for FUZZTIME
	@if [ -z "$(CRASH_PKGS)" ]; then echo "No test takes -crash.runs"; exit 1; fi
	$(GO) test -tags invariants -count=1 -timeout 0 -v -run 'Crash|Kill|Soak' $(addprefix ./,$(CRASH_PKGS)) \
		-crash.runs=$(RUNS) $(if $(SEED),-crash.seed=$(SEED))
	$(GO) test -count=1 -timeout 0 -v ./internal/killtest -kill.runs=$(KILLS) $(if $(SEED),-kill.seed=$(SEED))
	interop/apps.sh -long $(if $(SEED),-seed $(SEED))
	interop/apps.sh -apps copy -kills 500 $(if $(SEED),-seed $(SEED))
	interop/franzgo.sh --soak
	$(MAKE) fuzz

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME
	@set -e; grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' internal | sort | while IFS=: read -r file func; do \
		name=$${func#func }; echo "fuzz $$name in $${file%/*} for $(FUZZTIME)"; \
		$(GO) test -tags invariants -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5x "./$${file%/*}" </dev/null; \
	done

.PHONY: clean
clean: ## remove what was built; data is kept
	rm -rf bin

# Gabion's tasks. The list of modules is in go.work, because ./... stops at nested ones.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

ARGS ?=
FUZZTIME ?= 10s
PKG ?=
N ?= 50
SEED ?= 1
WITH ?=
AT ?=
FOR ?= 0
VERSION ?=
DRY ?=
KEY ?=

ROOT := $(CURDIR)
export GOWORK := $(ROOT)/go.work
# As releases are built, so that all is compiled once. The race detector needs C: .ci/test asks for it.
export CGO_ENABLED := 0

# MODULES are directories like ./cmd/gabion; PACKAGES are all that they hold, or PKG.
MODULES = $(shell sed -n 's|^[[:space:]]*\(use[[:space:]]\{1,\}\)\{0,1\}\(\.[^[:space:]]*\).*|\2|p' go.work)
PACKAGES = $(if $(PKG),$(PKG),$(addsuffix /...,$(MODULES)))

# FIRST are the modules that make test tests: all but those of real servers, crashes, SDKs and Caddy, which alone is compiled for minutes.
FIRST = $(filter-out ./e2e ./e2e/% ./contrib/gabioncaddy,$(MODULES))

.PHONY: help
help: ## List the targets (this)
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | while IFS=$$'\t' read -r name what; do printf '  make %-14s %s\n' "$$name" "$$what"; done

.PHONY: run
run: gabion ## Build gabion and show it at work: gabion demo (ARGS="..." goes to it)
	@exec ./bin/gabion demo $(ARGS)

# go build -v names each package when it is built: every twentieth is progress enough. The
# large ones and the linker take a minute in which nothing is named, so the time is told too.
.PHONY: gabion
gabion: ## Build bin/gabion
	@mkdir -p bin
	@echo "Building bin/gabion. The first time takes a minute or two."
	@# Its own go.mod alone decides what is fetched: nobody waits for the tests' dependencies.
	@( n=0; while sleep 10 >/dev/null 2>&1; do echo "  $$((n += 10)) s"; done ) & clock=$$!; trap "kill $$clock 2>/dev/null || true" EXIT; \
	GOWORK=off go -C cmd/gabion build -v -o "$(ROOT)/bin/gabion" . 2>&1 | \
		awk '/^[[:alnum:]_.\/~-]+$$/ { if (++n % 20 == 0) { print "  " n " packages built"; fflush() } next } { print; fflush() }'

.PHONY: demo-table
demo-table: gabion ## Run the demo and write its table and its picture for README.md
	@exec ./bin/gabion demo --into README.md --picture docs/demo.svg

# Of go vet, make check does all.
.PHONY: quick
quick: ## Test the root module, without the race detector: 40 s
	@go test -short -vet=off -p 3 $(if $(PKG),$(PKG),./...)

.PHONY: test
test: ## Test all that needs no server, what has no foreign dependencies with the race detector (PKG=./policy/... for a part)
	@.ci/test short $(if $(PKG),$(PKG),$(addsuffix /...,$(FIRST)))

.PHONY: test-all
test-all: ## Test everything: real servers, crashes, other people's SDKs, and the long versions (PKG=./policy/... for a part)
	@.ci/test all $(PACKAGES)

.PHONY: upstream
upstream: ## Run other projects' own tests with and without gabion in between, in some minutes (ARGS="-write ../../docs/upstream.md" writes the table)
	@go test -tags upstream -vet=off -count=1 -v -timeout 30m ./e2e/upstream $(if $(ARGS),-args $(ARGS))

.PHONY: servers
servers: ## Install the servers and the clients of other languages that tests run against, where apt-get and npm may
	@servers=0; .ci/servers || servers=$$?; $(MAKE) --no-print-directory clients && exit $$servers

.PHONY: clients
clients:
	@.ci/clients

.PHONY: check
check: ## gofmt, go vet, the repository's own rules, tidy go.mod files, golangci-lint, the API's changes
	@.ci/tools
	@echo "== gofmt"; \
	bad=$$(gofmt -l $(MODULES) | sort -u); \
	if [ -n "$$bad" ]; then echo "$$bad"; echo "FAIL: run gofmt -w on these"; exit 1; fi
	@echo "== go vet"; go vet $(PACKAGES)
	@echo "== house"; go test -vet=off "-ldflags=-s -w" -timeout 15m ./internal/house # as .ci/test does, whose result stands
	@echo "== what does not go with the race detector, which allocates"; go test -run 'Alloc|EarlyAnswers' ./gabionhttp ./gabionproxy ./internal/behaviour ./idempotency ./internal/conformance ./gabionslog ./contrib/gabionotel ./contrib/gabionprom
	@# list -export compiles as build does, and does not link.
	@for dir in $(MODULES); do \
		echo "== $$dir: go.mod is tidy, and the module builds by itself"; \
		GOWORK=off go -C $$dir mod tidy -diff || { echo "FAIL: run: GOWORK=off go -C $$dir mod tidy"; exit 1; }; \
		GOWORK=off go -C $$dir list -export ./... >/dev/null; \
	done
	@$(MAKE) --no-print-directory lint api
	@echo "PASS: check"

# Of e2e/sdk go vet has to do: the SDKs that it imports are more than all the rest.
LINTED = $(filter-out ./e2e/...,$(PACKAGES)) $(if $(filter ./e2e/...,$(PACKAGES)),$(shell go list -f '{{.Dir}}' ./e2e/... | grep -v /e2e/sdk))

.PHONY: lint
lint: ## Run golangci-lint, built into bin/tools, over all modules (PKG=./policy/... for a part)
	@.ci/tools
	@echo "== golangci-lint"; bin/tools/golangci-lint run $(LINTED)

.PHONY: api
api: ## Compare the exported API with the last version's: the CHANGELOG names what is incompatible
	@.ci/tools
	@echo "== API"; .ci/api

.PHONY: bench
bench: ## Compare gabion with other libraries and write docs/performance.md, docs/performance-figures.md and docs/stores.md, in some 10 minutes (ARGS="-quick" to see it work)
	@cd e2e/bench && go run ./report $(ARGS)
	@cd e2e/stores && go run ./report $(ARGS)
	@cd contrib/gabionmsg && go test -run '^$$' -bench Middleware -benchtime 100000x -count 3 .
	@cd contrib/sqlitestore/sqliteletters && go test -run '^$$' -bench . .
	@cd e2e/messages && go test -run '^$$' -bench Relay -benchtime 20000x -count 3 ./relays
	@go test -run "^$$" -bench Consume -benchtime 10x ./contrib/natsmsg

.PHONY: instructions
instructions: ## Count what calls cost, instruction by instruction, and compare with e2e/instructions/table.txt (ARGS=-write writes it)
	@cd e2e && go run ./instructions $(ARGS)

.PHONY: overload
overload: ## Overload a server in many ways and write docs/overload.md, in three hours (ARGS="-at-once 3" in one)
	@cd e2e && go run ./overload/report $(ARGS)

.PHONY: example
example: ## Add amounts exactly once while the server is killed (DATABASE_URL=... for PostgreSQL too)
	@cd examples/balance && go run . $(ARGS)

.PHONY: lab-verify
lab-verify: ## Reproduce published results in the lab and compare, in under a minute
	@cd cmd/gabion && GOWORK=off go run . lab verify

.PHONY: tournament
tournament: ## Play the defaults against all opponents in all scenarios and write docs/tournament.md, in half an hour (ARGS="--quick" in two minutes)
	@cd cmd/gabion && GOWORK=off go run . lab tournament $(or $(ARGS),--full) --markdown ../../docs/tournament.md

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (10s) each, and count their executions
	@.ci/fuzz $(FUZZTIME) $(PACKAGES)

.PHONY: mutate
mutate: ## Change PKG=./internal/budget in N (50) places by SEED (1), one at a time, and print what its tests do not notice (docs/mutation.md)
	@go run ./internal/mutate -n $(N) -seed $(SEED) -for $(FOR) -with "$(WITH)" -at "$(AT)" $(PKG)

.PHONY: mutants
mutants: ## Try the changes that docs/mutation.md lists, each of which a test must notice: no slot, permit or lease is kept
	@go run ./internal/mutate -list docs/mutation.md

.PHONY: soak
soak: ## Run the tests in their long versions (GABION_SOAK=1): up to an hour
	@.ci/test soak $(PACKAGES)

.PHONY: release
release: ## Make VERSION=v0.x.y of all modules, and bin/release, signed with KEY=FILE, and prove that they can be used (DRY=1: no tags, any key). It pushes nothing
	@cd e2e/release && GOWORK=off go run . -version "$(VERSION)" $(if $(KEY),-key "$(abspath $(KEY))") $(if $(DRY),-dry) $(ARGS)

.PHONY: site
site: ## Build the site of docs/ in bin/site/latest (VERSION=v0.3.0: in a folder of that name)
	@.ci/site $(VERSION)

.PHONY: clean
clean: ## Remove what make built
	rm -rf bin

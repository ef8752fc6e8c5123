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

ROOT := $(CURDIR)
export GOWORK := $(ROOT)/go.work

# MODULES are directories like ./cmd/gabion; PACKAGES are all that they hold, or PKG.
MODULES = $(shell sed -n 's|^[[:space:]]*\(use[[:space:]]\{1,\}\)\{0,1\}\(\.[^[:space:]]*\).*|\2|p' go.work)
PACKAGES = $(if $(PKG),$(PKG),$(addsuffix /...,$(MODULES)))

# The SDKs of e2e/sdk take minutes and gigabytes to compile for the race detector, so
# that module has a target of its own, without it.
TESTED = $(if $(PKG),$(PKG),$(addsuffix /...,$(filter-out ./e2e/sdk,$(MODULES))))

# The race detector needs cgo, and that a C compiler.
CC_FOUND = $(shell [ "$$(go env CGO_ENABLED)" = 1 ] && cc=$$(go env CC) && command -v "$${cc%% *}")
# SQLite is C that was translated to Go, with memory of its own: there is nothing that the race
# detector knows of, and it makes every test of a database three times as slow.
RACE = $(if $(CC_FOUND),-race -gcflags=modernc.org/...=-race=false,)
# The simulator plays a world in one goroutine, and so do those who read texts. There is nothing
# for the race detector to find in these packages, and it makes them ten times as slow. The pool of
# gabion tune runs under it in the tests of lab/internal/tune, and the rules of gabionvet in its own.
SERIAL = /(cmd/gabion/internal/tunecmd|gabionvet/cmd/gabionvet|lab(/internal/(crosscheck|draw|engine|family|junit|limits|opponent|recorded|report|review|scenario|sim|stat))?|internal/(grpcconfig|house|yamlstrict))$$
# The same goes for tests ALONE of the packages MIXED, whose other tests run with it: there, in
# lab/labtest and in cmd/gabion, are the pools in which many worlds are played. What e2e/overload
# measures in minutes of synthetic time runs with it for seconds.
MIXED = /(classify|cmd/gabion/internal/labcmd|contrib/sqliteletters|e2e/overload|lab/internal/(anchor|bridge)|internal/(budget|conformance|latency|machine))$$
ALONE = ^(TestOneWalkSaysWhatManyQuestionsSay|TestRandomScriptsAgreeWithAList|TestALimitCutsOffTheShareThatItIsFor|TestHundredThousandPartitionsFitInAHundredMiB|TestTheLoadOfEachShapeInTheSteadyState|TestWhatAShareInFlightComesToAsLoad|TestAPercentileHedgesTheShareThatItSays|TestAnAttemptHasTheTimeThatItsPercentileNeeds|TestEarnedKeepsItsPromiseInEverySpan|TestRandomScriptsKeepThePromise|TestWithoutProtectionTheServerCollapses|TestAdmissionKeepsAServerAtItsCapacity|TestDatabasesDoAsMemoryDoes|TestManyLetters|TestTheStoriesAreWhatTheyWere|TestPublishedResultsAtASmallSize|TestLayersWithBudgetsMultiplyAsPublished|TestSameFiguresWhateverRunsBeside|TestFiguresAreNumbersWithNames|TestSeedsMatter|TestC119_ARunOfTheLabIsDecidedAlike|TestLookingDecidesNothing|TestEveryCaseIsTestedOrLeftOutWithAReason)$$|^TestExitCodes$$/^a_map$$|^TestExitCodes$$/^a_timeline_of_a_busy
# These wait most, for leases, servers and partitions. They come first, so that others compute
# meanwhile and no processor is idle in the end.
WAIT = /(e2e/(crash|overload|sql|grpc|drivers|page|inbox|messages/[a-z]*)|examples/river|contrib/[a-z]*(store|pgx)|gabionhttp)$$
# Every program with the race detector sleeps for a second when it ends, that is a hundred times.
GORACE_SHORT = atexit_sleep_ms=20

NO_RACE = echo "No C compiler (or cgo is off): the tests run WITHOUT the race detector."

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
demo-table: gabion ## Run the demo and write its table into README.md
	@exec ./bin/gabion demo --into README.md

# Of go vet, make check does all.
.PHONY: test
test: ## Test all modules with the race detector (PKG=./policy/... for a part)
	@$(if $(RACE),:,$(NO_RACE))
	@start=$$SECONDS; failed=; \
	list=$$(go list $(TESTED)); list=$$(grep -E '$(WAIT)' <<<"$$list" || true; grep -vE '$(WAIT)' <<<"$$list" || true); \
	racing=$$(grep -vE '$(SERIAL)' <<<"$$list" || true); serial=$$(grep -E '$(SERIAL)' <<<"$$list" || true); \
	mixed=$$(grep -E '$(MIXED)' <<<"$$list" || true); \
	if [ -n "$$racing" ]; then GORACE="$(GORACE_SHORT) $${GORACE:-}" go test $(RACE) -vet=off -skip '$(ALONE)' -p 2 -timeout 15m $$racing || failed=1; fi; \
	if [ -n "$$serial" ]; then go test -vet=off -p 2 -timeout 15m $$serial || failed=1; fi; \
	if [ -n "$$mixed" ]; then go test -vet=off -run '$(ALONE)' -p 2 -timeout 15m $$mixed || failed=1; fi; \
	if [ -z "$$failed" ]; \
	then echo "PASS: all of $(TESTED) in $$((SECONDS-start)) s$(if $(RACE), with the race detector where anything runs at the same time,, WITHOUT the race detector)"; \
	else echo "FAIL: see above ($$((SECONDS-start)) s)"; exit 1; fi

.PHONY: test-sdk
test-sdk: ## Compare other people's SDKs with and without gabion under them (minutes to compile)
	@go test -timeout 8m ./e2e/sdk/...

.PHONY: servers
servers: ## Install the servers that tests run against, where apt-get may
	@.ci/servers

.PHONY: upstream-grpc
upstream-grpc: ## Run the tests of grpc-go without gabion and with it, and write docs/upstream.md, in some minutes
	@cd e2e && go run ./upstream/grpcgo $(or $(ARGS),-write ../docs/upstream.md)

.PHONY: check
check: ## gofmt, go vet, the repository's own rules, tidy go.mod files, golangci-lint, the API's changes
	@.ci/tools
	@echo "== gofmt"; \
	bad=$$(gofmt -l $(MODULES) | sort -u); \
	if [ -n "$$bad" ]; then echo "$$bad"; echo "FAIL: run gofmt -w on these"; exit 1; fi
	@echo "== go vet"; go vet $(PACKAGES)
	@echo "== house"; go test ./internal/house
	@echo "== allocations, which the race detector would add to"; go test -run 'Alloc' . ./idempotency ./internal/conformance ./gabionslog ./contrib/gabionotel ./contrib/gabionprom
	@for dir in $(MODULES); do \
		echo "== $$dir: go.mod is tidy, and the module builds by itself"; \
		GOWORK=off go -C $$dir mod tidy -diff || { echo "FAIL: run: GOWORK=off go -C $$dir mod tidy"; exit 1; }; \
		GOWORK=off go -C $$dir build -o /dev/null ./...; \
	done
	@$(MAKE) --no-print-directory lint api
	@echo "PASS: check"

# Of e2e/sdk go vet has to do: the SDKs that it imports are more than all the rest.
.PHONY: lint
lint: ## Run golangci-lint, built into bin/tools, over all modules (PKG=./policy/... for a part)
	@.ci/tools
	@echo "== golangci-lint"; bin/tools/golangci-lint run $(filter-out ./e2e/sdk/...,$(PACKAGES))

.PHONY: api
api: ## Compare the exported API with the last version's: the CHANGELOG names what is incompatible
	@.ci/tools
	@echo "== API"; .ci/api

.PHONY: bench
bench: ## Compare gabion with other libraries and write docs/performance.md and docs/stores.md, in some 10 minutes (ARGS="-quick" to see it work)
	@cd e2e/bench && go run ./report $(ARGS)
	@cd e2e/stores && go run ./report $(ARGS)
	@cd contrib/gabionmsg && go test -run '^$$' -bench Middleware -benchtime 100000x -count 3 .
	@cd contrib/sqliteletters && go test -run '^$$' -bench . .
	@cd e2e/messages && go test -run '^$$' -bench Relay -benchtime 20000x -count 3 ./relays
	@go test -run "^$$" -bench Consume -benchtime 10x ./contrib/natsmsg

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

.PHONY: soak
soak: ## Run the tests in their long versions (GABION_SOAK=1): up to an hour
	@$(if $(RACE),:,$(NO_RACE))
	GABION_SOAK=1 go test $(RACE) -count 1 -p 2 -timeout 60m $(PACKAGES)

.PHONY: release
release: ## Make VERSION=v0.x.y of all modules and prove that it can be used (DRY=1: keep no tags). It pushes nothing
	@cd internal/release && GOWORK=off go run . -version "$(VERSION)" $(if $(DRY),-dry)

.PHONY: clean
clean: ## Remove what make built
	rm -rf bin

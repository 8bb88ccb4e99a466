# What there is to do, each from a clean clone on Debian 12 as root.
#
#   make build   the program: bin/cordon, and bin/cordon-full beside it
#   make demo    see it work, on a throwaway host of its own
#   make test    every test there is; ends with "N passed, N failed"
#   make race    the race detector, on what runs side by side
#   make check   formatting, static analysis, known vulnerabilities
#   make bench   speed, as ratios against peers in one run
#   make fuzz    a minute for each fuzz test (FUZZTIME=10s)
#   make deps    install what the others need (they do it themselves)
#   make clean   remove what was built

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.DELETE_ON_ERROR:
.PHONY: build deps demo test race check vuln bench fuzz clean

export PATH := $(PATH):/usr/sbin:/usr/local/go/bin

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
TOOLS := bin/tools
FUZZTIME ?= 1m

build: deps
	go build -trimpath -buildvcs=false -ldflags '-X main.version=$(VERSION)' -o bin/cordon-full ./cmd/cordon
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-X main.version=$(VERSION)' -o bin/cordon ./cmd/cordon/front

deps:
	@test/deps.sh

demo: build
	@test/demo/demo.sh

# Two packages at a time: what they test is the kernel, and there is one.
test: deps
	@go run ./test/runner -count=1 -p 2 -timeout 25m ./...

# Not on what bounds memory or time, nor on what takes ten times as long so.
RACE ?= ./cmd/... ./enforcers/git ./enforcers/proxy ./reconciler/... ./internal/source/folder \
	$(addprefix ./internal/,ending epoll leanhttp rawsys run rundir secret stricthttp terminal watch)

race: deps
	@go test -race -count=1 -p 2 -timeout 25m $(RACE)

bench: build
	@go run ./test/bench $(BENCH)

fuzz: deps
	@grep -rlE '^func Fuzz' --include=*_test.go . | while read -r file; do \
		for name in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$$file"); do \
			go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "./$$(dirname "$$file")"; \
		done; \
	done

check: deps $(TOOLS)/gofumpt $(TOOLS)/staticcheck vuln
	@unformatted=$$($(TOOLS)/gofumpt -l .); \
		if [ -n "$$unformatted" ]; then echo "not formatted as gofumpt does:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	$(TOOLS)/staticcheck ./...
	go test -count=1 ./test/imports
	go mod verify
	go mod tidy -diff

vuln: deps $(TOOLS)/govulncheck
	@said=$$($(TOOLS)/govulncheck ./... 2>&1) && { echo "govulncheck: nothing known"; exit 0; }; \
		echo "$$said"; \
		if grep -q 'fetching vulnerabilities' <<<"$$said"; then echo "govulncheck: its database could not be reached, so this was NOT checked"; exit 0; fi; \
		exit 1

# Tools are programs of the build, not of the module: their versions stand here.
$(TOOLS)/gofumpt: TOOL = mvdan.cc/gofumpt@v0.12.0
$(TOOLS)/staticcheck: TOOL = honnef.co/go/tools/cmd/staticcheck@v0.8.2
$(TOOLS)/govulncheck: TOOL = golang.org/x/vuln/cmd/govulncheck@v1.9.0
$(TOOLS)/%: Makefile | deps
	GOBIN=$(CURDIR)/$(TOOLS) go install $(TOOL)
	@touch $@

clean:
	rm -rf bin

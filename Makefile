# Thin names for the scripts; `make help` lists them.
.DEFAULT_GOAL := build
.PHONY: help build test demo bench format clean

help:    ## list the targets
	@sed -n 's/^\([a-z]*\): *## \(.*\)/make \1\t\2/p' Makefile

build:   ## install what is missing, build build/tilewright and build/libtilewright.so
	@scripts/build.sh

test:    ## install what is missing, build and run every test that this machine can run
	@scripts/test.sh

demo:    ## derive attention from its definition, run it here and check it
	@scripts/demo.sh

bench:   ## run the benchmark suite on this machine
	@scripts/bench.sh

format:  ## format the sources with clang-format
	@scripts/format.sh fix

clean:   ## remove build/
	@rm -rf build

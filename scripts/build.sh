#!/usr/bin/env bash
# Builds build/tilewright and build/libtilewright.so, after installing what is missing.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

scripts/setup.sh
say "Configuring"
configure release build
say "Building the command and the library"
compile build product
if [ ! -x build/tilewright ]; then
  echo "the build did not leave build/tilewright" >&2
  exit 1
fi
say "Ready: build/tilewright"

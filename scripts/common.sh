# Sourced by the other scripts: the repository root as working folder, and
#   say TEXT       a progress line
#   cmake_tool     a cmake of version 3.25 or later: the one on PATH, else the system's
#   JOBS           parallel jobs; set it to use fewer than the machine has
# TILEWRIGHT_DEPS, if set, names a folder of dependency headers (scripts/collect_headers.sh).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

JOBS=${JOBS:-$(nproc 2>/dev/null || echo 2)}

say() { printf '== %s\n' "$*"; }

cmake_new_enough() {
  local version
  version=$("$1" --version 2>/dev/null | sed -n 's/^cmake version \([0-9.]*\).*/\1/p')
  [ -n "$version" ] && [ "$(printf '3.25\n%s\n' "$version" | sort -V | head -n 1)" = 3.25 ]
}

cmake_tool() {
  local candidate
  for candidate in cmake /usr/bin/cmake; do
    if cmake_new_enough "$candidate"; then echo "$candidate"; return; fi
  done
  return 1
}

# configure PRESET FOLDER [OPTION...]: quiet unless it fails.
configure() {
  local cmake log status=0
  cmake=$(cmake_tool)
  mkdir -p build
  log=$2.configure.log
  "$cmake" --preset "$1" -B "$2" -DTILEWRIGHT_DEPS="${TILEWRIGHT_DEPS:-}" "${@:3}" >"$log" 2>&1 </dev/null || status=$?
  if [ "$status" != 0 ]; then
    cat "$log" >&2
    return "$status"
  fi
  rm -f "$log"
}

# compile FOLDER TARGET...: one line per finished step on a terminal's last line, errors in full.
compile() {
  local folder=$1
  shift
  local targets=("$@")
  "$(cmake_tool)" --build "$folder" --parallel "$JOBS" --target "${targets[@]}" </dev/null
}

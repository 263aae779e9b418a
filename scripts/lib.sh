# Shared by the scripts: sourced, not run. Sets `top`, and has what every stage needs: messages, dependencies, configure, build.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$top"
# What each says of itself is its first comment.
case ${1:-} in
  -h|--help) sed -n '2,${/^#/!q; s/^# \{0,1\}//p}' "$top/scripts/$(basename "$0")"; exit 0 ;;
esac
jobs=${FTAR_JOBS:-$(nproc)}
unset FTAR_JOBS  # it is ours, and the library refuses FTAR_* variables that it does not know

# Debian packages, the one list. Required first; of the optional ones the libraries make ours faster or better informed, spin
# checks the models of tests/model, and libbenchmark-dev runs perf/bench_*. The rivals' are perf/compare's own.
packages_required="cmake ninja-build g++ pkg-config python3 libssl-dev flatbuffers-compiler libflatbuffers-dev libxxhash-dev
  libcli11-dev nlohmann-json3-dev libfmt-dev libgtest-dev libgmock-dev"
packages_optional="ccache libisal-dev libhwloc-dev libbenchmark-dev spin"

say() { printf '\n== %s (%s)\n' "$*" "$(date +%H:%M:%S)"; }
die() { printf '\nerror: %s\n' "$*" >&2; exit 1; }

missing_packages() {
  local name
  for name in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || printf '%s ' "$name"
  done
}

# Runs a command as root: directly, or by sudo without a question.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

install_dependencies() {
  command -v dpkg-query >/dev/null || { check_tools; return; }
  local needed
  # shellcheck disable=SC2086  # the lists are words
  needed=$(missing_packages $packages_required $packages_optional)
  [ -n "$needed" ] || { echo "dependencies: all installed"; return 0; }
  say "installing: $needed"
  if [ "$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; then
    # shellcheck disable=SC2086
    needed=$(missing_packages $packages_required)
    [ -n "$needed" ] || { echo "only optional packages are missing; going on without them"; return 0; }
    die "these packages are missing, and this user may not install them. Run as root: apt-get install $needed"
  fi
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update || echo "apt-get update failed; trying with the lists at hand"
  # shellcheck disable=SC2086
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $needed ||
    die "apt-get could not install: $needed"
}

# On other systems: say what is needed, and go on if the tools at least are there (CMake names a missing library).
check_tools() {
  local tool
  for tool in cmake ninja g++ flatc python3; do
    command -v "$tool" >/dev/null ||
      die "$tool is missing. This is not a Debian system; install what these packages hold: $packages_required"
  done
}

# build_preset PRESET [cmake options] [-- targets]
build_preset() {
  local preset=$1 options=() log
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1"); shift; done
  [ $# -eq 0 ] || shift
  log=$(cmake --preset "$preset" "${options[@]}" 2>&1) || { printf '%s\n' "$log" >&2; return 1; }
  sed -n '/libftar .*sanitizers/,/^-- Configuring/{/^-- Configuring/!p}' <<<"$log"
  cmake --build "build/$preset" --parallel "$jobs" ${1:+--target "$@"}
}

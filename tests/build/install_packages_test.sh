#!/bin/sh
# Runs tools/install-packages as a user without root, with fake dpkg-query and id.
set -eu
root=$1
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT

fail() {
  echo "$1" >&2
  exit 1
}

stand_in() {
  printf '#!/bin/sh\n%s\n' "$2" >"$bin/$1"
  chmod +x "$bin/$1"
}

stand_in id 'echo 1000'
stand_in apt-get 'echo "apt-get was called" >&2; exit 99'
stand_in dpkg-query 'case "$*" in *libhwloc-dev*) exit 1 ;; esac; printf "install ok installed"'
if output=$(PATH="$bin:$PATH" "$root/tools/install-packages" build 2>&1); then
  fail "expected a failure, found: $output"
fi
case $output in
  *"missing packages: libhwloc-dev"*) ;;
  *) fail "expected the missing package, found: $output" ;;
esac

stand_in dpkg-query 'printf "install ok installed"'
output=$(PATH="$bin:$PATH" "$root/tools/install-packages" build test 2>&1) ||
  fail "expected to go on where nothing is missing, found: $output"
[ -z "$output" ] || fail "expected silence, found: $output"

#!/bin/sh
# run.sh BUILD SECONDS: gives each fuzz target of a build that many seconds, beginning from a copy of
# its stored corpus, so that the tree stays as it is. An input that breaks one is left in BUILD/found.
set -eu
here=$(dirname "$0")
build=$1
seconds=$2
found=$build/found
mkdir -p "$found"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for corpus in "$here"/corpus/*; do
  name=$(basename "$corpus")
  cp -r "$corpus" "$work/$name"
  log=$work/$name.log
  if ! "$build/tests/fuzz/${name}_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
       -artifact_prefix="$found/$name-" "$work/$name" >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    echo "lockstep: fuzzing $name: the input is in $found" >&2
    exit 1
  fi
  echo "$name: $(grep '^Done' "$log")"
done

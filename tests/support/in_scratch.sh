#!/bin/sh
# Runs a command with an empty temporary folder of its own. Tests that list the jobs of this user do not see its jobs.
folder=$(mktemp -d /tmp/lockstep-test-XXXXXX) || exit 1
trap 'rm -rf "$folder"' EXIT
TMPDIR=$folder XDG_RUNTIME_DIR= "$@"

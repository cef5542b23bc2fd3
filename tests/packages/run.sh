#!/bin/sh
# run.sh DEBS WORK: installs the packages of the folder DEBS into a clean Debian, runs a job and a training
# there, builds a consumer, and removes the packages again. As root. Everything lies below WORK, which keeps
# the clean system and the downloaded packages for the next run.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
debs=$(cd "$1" && pwd)
mkdir -p "$2/archives/partial"
work=$(cd "$2" && pwd)
base=$work/base.tar

if [ "$(id -u)" != 0 ]; then
  echo "run.sh: expected root, which mounts and changes the root folder; found user $(id -u)" >&2
  exit 1
fi
ls "$debs"/lockstep_*.deb >/dev/null 2>&1 || {
  echo "run.sh: expected packages in $debs, found none; try: make deb" >&2
  exit 1
}

# The Debian package sources of this machine. If they change, the base is rebuilt.
sources=$(apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' \
  'Created-By: Packages' 'Origin: Debian' | sort -u)
[ -n "$sources" ] || { echo "run.sh: apt has no source of Debian; try: apt-get update" >&2; exit 1; }
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
options=
for option in Acquire::http::Proxy Acquire::https::Proxy Acquire::Check-Valid-Until; do
  value=
  eval "$(apt-config shell value "$option")"
  [ -z "$value" ] || options="$options$option \"$value\";
"
done

if [ ! -e "$base" ] || [ "$sources" != "$(cat "$work/sources" 2>/dev/null)" ]; then
  echo "making a clean $suite"
  rm -f "$base"
  printf '%s' "$options" >"$work/apt.conf"
  if ! printf '%s\n' "$sources" | mmdebstrap --mode=root --variant=minbase --aptopt="$work/apt.conf" \
    --format=tar "$suite" "$base.new" - >"$work/mmdebstrap.log" 2>&1; then
    tail -n 20 "$work/mmdebstrap.log" >&2
    exit 1
  fi
  mv "$base.new" "$base"
  printf '%s\n' "$sources" >"$work/sources"
fi

# The namespaces end with inside.sh, so no process and no mount remains.
root=$(mktemp -d "$work/root.XXXXXX")
trap 'rm -rf --one-file-system "$root"' EXIT
trap 'exit 1' HUP INT TERM
tar -C "$root" -xf "$base" --numeric-owner
unshare --mount --pid --ipc --uts --fork --kill-child --propagation private \
  "$here/inside.sh" "$root" "$debs" "$work/archives" "$here/../build/consumer"

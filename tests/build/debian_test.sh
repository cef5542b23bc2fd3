#!/bin/sh
# debian_test.sh ROOT VERSION: compares debian/ with the version of the project and with packages/.
set -eu
root=$1
version=$2

fail() {
  echo "$1" >&2
  exit 1
}

packaged=$(sed -n '1s/^lockstep (\(.*\)) .*/\1/p' "$root/debian/changelog")
[ "$packaged" = "$version" ] || fail "debian/changelog: expected version $version, found $packaged"

# What the packages are built with is installed by `make deb`.
wanted=$(sed -n '/^Build-Depends:/,/^$/ s/^ \([^ ,]*\).*/\1/p' "$root/debian/control")
[ "$(echo "$wanted" | wc -l)" -gt 15 ] || fail "debian/control: expected a list of packages, found: $wanted"
for package in $wanted; do
  [ "$package" = debhelper-compat ] && continue
  grep -qx "$package" "$root/packages/build" "$root/packages/deb" ||
    fail "debian/control: $package is neither in packages/build nor in packages/deb"
done

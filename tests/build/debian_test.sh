#!/bin/sh
# debian_test.sh ROOT VERSION: compares debian/ with the version of the project, packages/ and `lockstep doctor`.
set -eu
root=$1
version=$2

fail() {
  echo "$1" >&2
  exit 1
}

packaged=$(sed -n '1s/^lockstep (\(.*\)) .*/\1/p' "$root/debian/changelog")
[ "$packaged" = "$version" ] || fail "debian/changelog: expected version $version, found $packaged"

soversion=$(sed -n 's/^set(LOCKSTEP_SOVERSION \(.*\))$/\1/p' "$root/cmake/SharedLibraries.cmake")
for package in "liblockstep$soversion" "liblockstep-torch$soversion"; do
  grep -qx "Package: $package" "$root/debian/control" ||
    fail "debian/control: expected the package $package, found none"
done

# `make deb` installs the build dependencies.
wanted=$(sed -n '/^Build-Depends:/,/^$/ s/^ \([^ ,]*\).*/\1/p' "$root/debian/control")
[ "$(echo "$wanted" | wc -l)" -gt 15 ] || fail "debian/control: expected a list of packages, found: $wanted"
for package in $wanted; do
  [ "$package" = debhelper-compat ] && package=debhelper
  grep -qx "$package" "$root/packages/build" "$root/packages/deb" ||
    fail "debian/control: $package is neither in packages/build nor in packages/deb"
done

# dpkg-buildpackage refuses to build without build-essential, which Build-Depends does not list.
grep -qx build-essential "$root/packages/deb" || fail "packages/deb: expected build-essential, found none"

# The packages are built with everything that the build uses.
for package in $(sed 's/#.*//' "$root/packages/build"); do
  case $package in
    g++ | make) continue ;; # parts of build-essential
  esac
  echo "$wanted" | grep -qx "$package" || fail "debian/control: Build-Depends lacks $package of packages/build"
done

# `lockstep doctor` names packages that add features at run time.
runtime=$(awk '/^[^ ]/ { reads = /^(Depends|Recommends|Suggests):/ } reads && /^ / { sub(/,.*/, ""); print $1 }' \
  "$root/debian/control")
named=$(sed -n '/kOptionalParts{/,/^};/ s/.*"\([^" ]*\)[^"]*"},$/\1/p' "$root/lockstep/cli/doctor.cpp")
parts=$(grep -c '^    OptionalPart{' "$root/lockstep/cli/doctor.cpp")
[ "$(echo "$named" | wc -l)" = "$parts" ] ||
  fail "doctor.cpp: expected a package for each of $parts parts, found: $named"
for package in $named; do
  echo "$runtime" | grep -qx "$package" ||
    fail "debian/control: Depends, Recommends and Suggests lack $package, which lockstep doctor names"
done

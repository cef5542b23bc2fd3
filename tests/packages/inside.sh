#!/bin/sh
# inside.sh ROOT DEBS ARCHIVES CONSUMER: what run.sh does in the clean system ROOT, in namespaces of its own.
set -eu
root=$1

step() {
  echo "== $1"
}

fail() {
  echo "test-packages: $1" >&2
  exit 1
}

# Runs a command in the system. Shows the end of its output if it fails.
inside() {
  if ! chroot "$root" /usr/bin/env -i HOME=/tmp/home LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@" >"$root/tmp/output" 2>&1; then
    tail -n 30 "$root/tmp/output" >&2
    fail "failed: $*"
  fi
}

# Fails if the output of the last command does not contain a line of this form.
expect() {
  grep -Eq "$1" "$root/tmp/output" || {
    cat "$root/tmp/output" >&2
    fail "expected '$1' in the output"
  }
}

install() {
  inside apt-get install -y --no-install-recommends "$@"
}

# Lists all files except the package manager's own data.
list_files() {
  chroot "$root" find / -xdev \( -path /tmp -o -path /var/lib/dpkg -o -path /var/lib/apt \
    -o -path /var/cache -o -path /var/log \) -prune -o -print | LC_ALL=C sort
}

# The files (-v) or the folders of the packages of DEBS.
list_packaged() {
  for deb in "$root"/tmp/debs/*.deb; do
    dpkg-deb --fsys-tarfile "$deb" | tar -t | grep "$@" '/$' | sed 's/^\.//; s:/$::'
  done | LC_ALL=C sort -u
}

mount -t proc proc "$root/proc"
mount --rbind --make-rslave /sys "$root/sys"
mount -t tmpfs -o mode=755 dev "$root/dev"
for device in null zero full random urandom tty; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
ln -s fd/0 "$root/dev/stdin"
ln -s fd/1 "$root/dev/stdout"
ln -s fd/2 "$root/dev/stderr"
mkdir "$root/dev/shm"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
mount --bind "$3" "$root/var/cache/apt/archives"
mkdir "$root/tmp/debs" "$root/tmp/home"
cp "$2"/*.deb "$root/tmp/debs"
rm -f "$root"/tmp/debs/*-dbgsym_*.deb
cp -r "$4" "$root/tmp/consumer"
cp /etc/resolv.conf "$root/etc/resolv.conf"
# Prevents services from starting.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod +x "$root/usr/sbin/policy-rc.d"
programs='lockstep lockstep-bench'
libraries='liblockstep0 liblockstep-torch0 liblockstep-dev'

step 'install the programs'
inside apt-get update
# shellcheck disable=SC2046,SC2086  # one word a package
install $(cd "$root/tmp/debs" && for name in $programs; do echo "/tmp/debs/$(echo "${name}"_*.deb)"; done)

step 'run the launcher, a training and a benchmark'
inside lockstep version
expect '^lockstep [0-9]'
inside lockstep run --num-instances 2 sh -c 'echo "I am $LOCKSTEP_INSTANCE"'
expect '^\[0\] I am 0$'
expect '^\[1\] I am 1$'
# The installed programs contain the names of their functions, for the stacks in reports.
install elfutils
inside lockstep run --num-instances 1 sh -c 'eu-stack -p "$(cut -d" " -f4 /proc/$$/stat)"'
expect 'lockstep::launch::'
for instances in 1 2; do
  inside lockstep train --dataset synthetic --size 256 --limit-test 64 --model resnet20 --image-size 32x32x3 \
    --batch-size 16 --epochs 1 --replicas 2 --num-instances "$instances" --threads-per-device 1
  expect 'weights: [0-9a-f]{16}'
  sed -n 's/.*weights: \([0-9a-f]*\).*/\1/p' "$root/tmp/output" >>"$root/tmp/digests"
done
[ "$(sort -u "$root/tmp/digests" | wc -l)" = 1 ] ||
  fail "expected the same weights with 1 and 2 instances, found $(xargs <"$root/tmp/digests")"
echo "weights: $(head -n 1 "$root/tmp/digests") with 1 and 2 instances"
inside lockstep bench launch --instances 2 --rounds 2
expect lockstep

step 'build a consumer'
# shellcheck disable=SC2046,SC2086
install cmake g++ make \
  $(cd "$root/tmp/debs" && for name in $libraries; do echo "/tmp/debs/$(echo "${name}"_*.deb)"; done)
inside cmake -S /tmp/consumer -B /tmp/consumer/build
inside cmake --build /tmp/consumer/build -j "$(nproc)"
inside lockstep run --num-instances 2 /tmp/consumer/build/consumer
expect '\[1\] instance 1 of 2, sum 3, squares 285'
inside /tmp/consumer/build/network
expect eb7a900b26567041
inside lockstep run --num-replicas 2 --num-instances 2 sh -c 'cd /tmp && /tmp/consumer/build/training'
expect 'weights [0-9a-f]+, twice, sum 23'

step 'remove the packages'
list_files >"$root/tmp/before"
list_packaged -v >"$root/tmp/files"
list_packaged >"$root/tmp/folders"
# shellcheck disable=SC2086
inside apt-get purge -y $programs $libraries
list_files >"$root/tmp/after"
export LC_ALL=C
comm -23 "$root/tmp/before" "$root/tmp/files" >"$root/tmp/expected"
left=$(comm -12 "$root/tmp/after" "$root/tmp/files"; grep lockstep "$root/tmp/after" || true)
[ -z "$left" ] || fail "expected no file of the packages, found: $left"
new=$(comm -13 "$root/tmp/expected" "$root/tmp/after")
[ -z "$new" ] || fail "expected no new file, found: $new"
# Folders that only these packages used are removed with them.
lost=$(comm -23 "$root/tmp/expected" "$root/tmp/after" | comm -23 - "$root/tmp/folders")
[ -z "$lost" ] || fail "expected every other file to stay, missing: $lost"
echo "$(wc -l <"$root/tmp/files") files were installed; none is left"

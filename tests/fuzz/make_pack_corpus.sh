#!/bin/sh
# make_pack_corpus.sh LOCKSTEP: makes corpus/pack with the binary `lockstep`: packs of each kind, and damaged ones.
set -eu
lockstep=$1
here=$(dirname "$0")
out=$here/corpus/pack
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$lockstep" data pack --dataset synthetic --size 3 --classes 2 --image-size 2x3x1 --split train \
  --output "$out/fixed" >/dev/null
mkdir -p "$work/train/a" "$work/train/b"
cp "$here/../data/fixtures/images/one_bit.png" "$work/train/a/1.png"
cp "$here/../data/fixtures/images/gray.jpg" "$work/train/b/1.jpg"
for kind in decoded stored; do
  "$lockstep" data pack --dataset folder --data-dir "$work" --split train --output "$out/$kind" \
    $([ $kind = stored ] && echo --as-stored) >/dev/null
done
head -c 4200 "$out/fixed" >"$out/truncated"
head -c 63 "$out/fixed" >"$out/short"
tr '\000' '\377' <"$out/fixed" >"$out/flipped"

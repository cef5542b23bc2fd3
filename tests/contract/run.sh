#!/usr/bin/env bash
# run.sh BIN: trains 8 replicas of each model on every layout, and expects the same bits from all.
# BIN is the folder of `lockstep`. A line for each layout that failed or differs, a count at the end.
#
#   MODELS     which of resnet20, convnet and mlp             (all)
#   INSTANCES  how many carry the 8 replicas                  (1 2 3 4 5 8)
#   WORKERS    of an asynchronous loader                      (0 1 2 3 4)
#   STAGES     of a replica, under each schedule              (2 3)
#   SIZE       samples; a step takes 64; of the mlp 4 x each  (200)
#   EPOCHS                                                    (2)
set -euo pipefail

lockstep=$(realpath "$1")/lockstep
models=${MODELS:-resnet20 convnet mlp}
instances=${INSTANCES:-1 2 3 4 5 8}
workers=${WORKERS:-0 1 2 3 4}
stages=${STAGES:-2 3}
size=${SIZE:-200}
epochs=${EPOCHS:-2}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cores=$(nproc)
first_core=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')

# Threads are fixed, since a job on fewer cores would choose fewer of them. The BLAS takes its own
# number of them and gives other bits with another: the mlp has two, and batches that take both.
options_of() {
  local batches="--replicas 8 --gradient-accumulation 2 --epochs $epochs --eval-every 0 --limit-test 50"
  case $1 in
    mlp)
      echo "--model mlp --dataset fashion-mnist --limit-train $((4 * size)) --batch-size 16" \
        "--threads-per-device 2 $batches"
      ;;
    *)
      echo "--model $1 --dataset synthetic --size $size --image-size 16x16x3 --batch-size 4" \
        "--threads-per-device 1 $batches"
      ;;
  esac
}

# The launcher binds instances that have a core each; others are all held to one core.
prefix_of() { # instances bind
  if [ "$2" = bound ] && [ "$1" -gt "$cores" ]; then echo "taskset -c $first_core"; fi
}
bind_of() { # instances bind
  if [ "$2" = bound ] && [ "$1" -le "$cores" ]; then echo core; else echo none; fi
}

runs=0
failures=0
fail() { # what, a file to show the end of
  failures=$((failures + 1))
  echo "FAILED $1: $(tail -n 3 "$2" | tr '\n' ' ')"
}

# model instances bind transport loader options
check() {
  local model=$1 count=$2 bind=$3 transport=$4 loader=$5
  local what="$model, $count instances, $bind, $transport, $loader"
  local log=$work/$model-$runs
  runs=$((runs + 1))
  # shellcheck disable=SC2046,SC2086  # words of a command line
  if ! $(prefix_of "$count" "$bind") "$lockstep" train $(options_of "$model") --num-instances "$count" \
    --bind "$(bind_of "$count" "$bind")" --transport "$transport" $loader \
    --digest-every 1 --log-dir "$log" >"$work/out" 2>&1; then
    fail "$what" "$work/out"
  else
    grep -o 'weights: [0-9a-f]*' "$work/out" >"$log/weights" || true
    if [ -z "$reference" ]; then
      reference=$log
    elif ! "$lockstep" diff "$reference" "$log" >"$work/diff" 2>&1; then
      fail "$what" "$work/diff"
    elif ! cmp -s "$reference/weights" "$log/weights"; then
      fail "$what" "$log/weights"
    fi
  fi
  [ "$log" = "$reference" ] || rm -rf "$log"
}

# How one loader or another is asked for, a line for each.
loaders() {
  echo "--sync-dataloader --num-workers 0"
  for count in $workers; do echo "--async-dataloader --num-workers $count"; done
}

# How a replica is cut and computed, a line for each.
pipelines() {
  for count in $stages; do
    for schedule in 1f1b gpipe sequential; do
      for recompute in "" --recompute --recompute=blocks; do
        echo "--devices-per-replica $count --pipeline $schedule $recompute"
      done
    done
  done
}

start=$SECONDS
for model in $models; do
  reference=
  before=$runs
  for count in $instances; do
    transports=shm
    [ "$count" != 1 ] || transports="local shm"
    for transport in $transports; do
      for bind in free bound; do
        while read -r loader; do check "$model" "$count" "$bind" "$transport" "$loader"; done < <(loaders)
      done
    done
  done
  for count in $instances; do
    while read -r pipeline; do check "$model" "$count" free shm "$pipeline"; done < <(pipelines)
  done
  echo "$model: $((runs - before)) layouts, $(cat "$reference/weights" 2>/dev/null || echo 'none of them worked')"
done
echo "$runs layouts, $failures failed, $((SECONDS - start)) s"
[ "$failures" = 0 ]

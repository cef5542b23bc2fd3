#include "lockstep/train/engine/run_step.h"

namespace lockstep::train {

/// The training step of lockstep, from top to bottom. The result depends on the data, the options,
/// the number of replicas and the threads of a device. It does not depend on the number of
/// instances, hosts or devices, except on a GPU without `--deterministic`, and on several GPUs with
/// `--reduction-order fast`.
void run_step(StepBackend& backend, const optimizer::StepRules& rules, std::int64_t index) {
  // Each replica computes the gradient of its G micro-batches. This gradient is a leaf.
  backend.compute_leaves(index);

  // The leaves of all replicas are added along a tree whose shape depends only on their number.
  backend.reduce(index);

  // A loss that is not finite ends the training, unless loss scaling skips the step.
  backend.check(index);

  // Clipping and loss scaling depend on the whole gradient, so it is measured before any update.
  // The norm is added over fixed blocks in a fixed order.
  if (rules.measures_gradients()) backend.measure_gradients(index);
  backend.decide(index);

  // LAMB also needs the norms of the weights and of the update direction of each parameter. The
  // direction follows from the clipped gradient.
  if (rules.has_trust_ratios) backend.measure_trust(index);

  // The optimizer computes the next weights, its own state, and the averages.
  backend.update(index);

  // One word makes the next version of the state current, so a crash at any moment leaves a
  // complete version. If the state is on the GPU, the host has the version of the last snapshot,
  // and a restarted job repeats the steps after it.
  backend.commit(index);

  backend.report(index);
}

}  // namespace lockstep::train

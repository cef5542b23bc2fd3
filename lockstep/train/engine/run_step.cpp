#include "lockstep/train/engine/run_step.h"

namespace lockstep::train {

/// The training step of lockstep, from top to bottom. Its result depends on the number of replicas
/// and on the data, and not on the number of instances, hosts or devices.
void run_step(StepBackend& backend, const optimizer::StepRules& rules, std::int64_t index) {
  // Each replica computes the gradient of its G micro-batches. This gradient is a leaf.
  backend.compute_leaves(index);

  // The leaves of all replicas are added along a tree whose shape depends only on their number.
  backend.reduce(index);

  // A loss that is not finite ends the training here. The last committed version stays intact.
  backend.check(index);

  // Clipping and loss scaling depend on the whole gradient, so it is measured before any update.
  // The norm is added over fixed blocks in a fixed order.
  if (rules.measures_gradients()) backend.measure_gradients(index);
  backend.decide(index);

  // LAMB also needs the norms of the weights and of the clipped direction of each parameter.
  if (rules.has_trust_ratios) backend.measure_trust(index);

  // The optimizer reads the current version of the state and writes the next version.
  backend.update(index);

  // One word makes the next version current. After a crash, training continues with the version
  // that was committed last.
  backend.commit(index);

  backend.report(index);
}

}  // namespace lockstep::train

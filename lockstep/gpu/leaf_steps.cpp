#include "lockstep/gpu/leaf_steps.h"

#include <algorithm>

#include "lockstep/comm/leaf_counter.h"

namespace lockstep::gpu {
namespace {

/// The pairs to add once the next leaf is there, if it had a row of its own.
std::vector<LeafStep::Addition> take(comm::LeafCounter& counter) {
  std::vector<LeafStep::Addition> additions;
  for (const auto& fold : counter.take()) additions.push_back({fold.into, fold.from});
  if (counter.num_missing() > 0) return additions;
  // What is left are ever smaller nodes: each is all that stands to the right of the one before.
  const auto& held = counter.held();
  for (auto i = held.size() - 1; i > 0; --i) {
    additions.push_back({held[i - 1].buffer, held[i].buffer});
  }
  return additions;
}

}  // namespace

LeafSteps leaf_steps(int num_leaves) {
  LeafSteps result;
  comm::LeafCounter counter({0, num_leaves});
  while (counter.num_missing() > 0) {
    LeafStep step{.combine = Combine::Write, .row = counter.next_buffer()};
    step.additions = take(counter);
    if (!step.additions.empty() && step.additions.front().right == step.row) {
      step.combine = Combine::Add;
      step.row = step.additions.front().left;
      step.additions.erase(step.additions.begin());
    }
    result.num_rows = std::max(result.num_rows, step.row + 1);
    result.steps.push_back(std::move(step));
  }
  return result;
}

}  // namespace lockstep::gpu

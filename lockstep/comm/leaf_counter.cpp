#include "lockstep/comm/leaf_counter.h"

#include <algorithm>

namespace lockstep::comm {

int LeafCounter::next_buffer() const {
  int buffer = 0;
  const auto is_taken = [&](const Held& held) { return held.buffer == buffer; };
  while (std::any_of(held_.begin(), held_.end(), is_taken)) ++buffer;
  return buffer;
}

std::vector<LeafCounter::Fold> LeafCounter::take() {
  held_.push_back({{leaves_.first + num_taken_, 1}, next_buffer()});
  ++num_taken_;
  std::vector<Fold> folds;
  while (held_.size() >= 2) {
    const auto& right = held_.back();
    auto& left = held_[held_.size() - 2];
    const bool are_siblings =
        left.node.width == right.node.width && left.node.first % (2 * left.node.width) == 0;
    if (!are_siblings) break;
    folds.push_back({left.buffer, right.buffer});
    left.node.width *= 2;
    held_.pop_back();
  }
  return folds;
}

void LeafCounter::restart() noexcept {
  num_taken_ = 0;
  held_.clear();
}

int num_buffers_for(LeafRange leaves) {
  LeafCounter counter(leaves);
  int most = 0;
  while (counter.num_missing() > 0) {
    most = std::max(most, counter.next_buffer() + 1);
    counter.take();
  }
  return most;
}

}  // namespace lockstep::comm

#include "lockstep/train/state/checkpoint_copy.h"

#include <utility>

#include "lockstep/base/clock.h"

namespace lockstep::train {
namespace {

/// Reports that a copy is complete, or that it will never be made. (std::promise would need
/// std::call_once, which fails in a program that contains a second libstdc++ beside libtorch's.)
class CopyMark {
 public:
  explicit CopyMark(std::shared_ptr<std::atomic<bool>> is_copied)
      : is_copied_(std::move(is_copied)) {}
  ~CopyMark() { set(); }
  CopyMark(const CopyMark&) = delete;
  CopyMark& operator=(const CopyMark&) = delete;

  void set() noexcept {
    is_copied_->store(true);
    is_copied_->notify_all();
  }

 private:
  std::shared_ptr<std::atomic<bool>> is_copied_;
};

}  // namespace

CheckpointCopy::Copy CheckpointCopy::begin(const std::byte* from) {
  is_copied_ = std::make_shared<std::atomic<bool>>(false);
  copied_version_ = state_.version();
  return [this, from, mark = std::make_shared<CopyMark>(is_copied_),
          loop = LoopState{state_.finished_epochs()}](Snapshot& to) {
    to.clear(tensors_.copy_bytes());
    checkpoint::Content content{.manifest = {},
                                .weights = tensors_.copy_weights(from, state_.frozen(), to),
                                .state = tensors_.copy_state(from, loop, to)};
    mark->set();
    return content;
  };
}

void CheckpointCopy::wait() const {
  if (is_copied_) is_copied_->wait(false);
}

void CheckpointCopy::wait_before_write() {
  if (!is_copied_ || state_.version() == copied_version_) return;
  Stopwatch watch;
  wait();
  is_copied_.reset();
  waited_seconds_ += watch.lap();
}

}  // namespace lockstep::train

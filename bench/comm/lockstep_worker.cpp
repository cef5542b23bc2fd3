// The process that `lockstep bench comm` measures for lockstep.

#include "bench/comm/worker.h"
#include "bench/driver/commands.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/world.h"

namespace lockstep::bench {
namespace {

class LockstepCollectives final : public Collectives {
 public:
  explicit LockstepCollectives(comm::Communicator& communicator) : communicator_(communicator) {}

  int rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }

  void barrier() override { communicator_.barrier(); }

  void all_reduce(std::span<float> values) override {
    communicator_.all_reduce(comm::buffer_of(values));
  }

  std::span<const float> reduce_scatter(std::span<float> blocks, std::span<float> block) override {
    communicator_.reduce_scatter(comm::buffer_of(blocks), comm::buffer_of(block));
    return block;
  }

  void all_gather(std::span<const float> block, std::span<float> blocks) override {
    communicator_.all_gather(comm::buffer_of(block), comm::buffer_of(blocks));
  }

  void broadcast(std::span<float> values) override {
    communicator_.broadcast(comm::buffer_of(values), 0);
  }

 private:
  comm::Communicator& communicator_;
};

}  // namespace

void comm_worker(const std::string& folder) {
  auto world = World::init();
  LockstepCollectives system(world.communicator());
  serve(system, folder);
}

}  // namespace lockstep::bench

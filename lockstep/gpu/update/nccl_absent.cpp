#include "lockstep/gpu/absent.h"
#include "lockstep/gpu/update/nccl.h"

namespace lockstep::gpu {

NcclGroup::Id NcclGroup::make_id() {
  refuse_without_cuda("NCCL");
}

bool NcclGroup::is_there() noexcept {
  return false;
}

NcclGroup::NcclGroup(const Id&, int rank, int size) : rank_(rank), size_(size) {
  refuse_without_cuda("NCCL");
}

NcclGroup::~NcclGroup() {}

void NcclGroup::all_reduce(float*, std::int64_t, Stream) const {}
void NcclGroup::all_gather(float*, std::int64_t, Stream) const {}
void NcclGroup::exchange(const std::function<void()>&) const {}
void NcclGroup::send(const float*, std::int64_t, int, Stream) const {}
void NcclGroup::receive(float*, std::int64_t, int, Stream) const {}

}  // namespace lockstep::gpu

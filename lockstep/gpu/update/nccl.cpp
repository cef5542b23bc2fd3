#include "lockstep/gpu/update/nccl.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep::gpu {
namespace {

// What of NCCL 2 is called, as its own header declares it. That header may be missing where the
// library is not.
constexpr int kSuccess = 0;
constexpr int kRemoteError = 6;
constexpr int kFloat32 = 7;
constexpr int kSum = 0;
struct UniqueId {
  char internal[128];
};
using Group = void*;

struct Library {
  int (*get_unique_id)(UniqueId*);
  int (*init_rank)(Group*, int size, UniqueId, int rank);
  int (*destroy)(Group);
  int (*all_reduce)(const void*, void*, std::size_t, int type, int operation, Group, Stream);
  int (*all_gather)(const void*, void*, std::size_t, int type, Group, Stream);
  int (*send)(const void*, std::size_t, int type, int to, Group, Stream);
  int (*receive)(void*, std::size_t, int type, int from, Group, Stream);
  int (*group_start)();
  int (*group_end)();
  const char* (*error_text)(int);
};

void* open_library() {
  if (auto* const found = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_GLOBAL)) return found;
  throw Error(ErrorKind::Unavailable, fmt::format("NCCL: expected libnccl.so.2: {}", ::dlerror()),
              "--gpu-transport host, or LD_LIBRARY_PATH with its folder");
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function != nullptr) return;
  throw Error(
      ErrorKind::Unavailable,
      fmt::format("NCCL: expected a library of version 2.7 or later, found one without {}", name),
      "--gpu-transport host");
}

Library load() {
  auto* const library = open_library();
  Library found{};
  find(library, "ncclGetUniqueId", found.get_unique_id);
  find(library, "ncclCommInitRank", found.init_rank);
  find(library, "ncclCommDestroy", found.destroy);
  find(library, "ncclAllReduce", found.all_reduce);
  find(library, "ncclAllGather", found.all_gather);
  find(library, "ncclSend", found.send);
  find(library, "ncclRecv", found.receive);
  find(library, "ncclGroupStart", found.group_start);
  find(library, "ncclGroupEnd", found.group_end);
  find(library, "ncclGetErrorString", found.error_text);
  return found;
}

const Library& nccl() {
  static const Library library = load();
  return library;
}

void check(int result, const char* call) {
  if (result == kSuccess) return;
  const auto kind = result == kRemoteError ? ErrorKind::PeerLost : ErrorKind::Bug;
  throw Error(kind, fmt::format("NCCL: {}: {}", call, nccl().error_text(result)),
              "run once more with NCCL_DEBUG=WARN: it then says what it misses");
}

}  // namespace

NcclGroup::Id NcclGroup::make_id() {
  UniqueId made{};
  check(nccl().get_unique_id(&made), "ncclGetUniqueId");
  Id id{};
  std::memcpy(id.data(), made.internal, id.size());
  return id;
}

bool NcclGroup::is_there() noexcept {
  try {
    nccl();
    return true;
  } catch (const Error&) {
    return false;
  }
}

NcclGroup::NcclGroup(const Id& id, int rank, int size) : rank_(rank), size_(size) {
  UniqueId known{};
  std::memcpy(known.internal, id.data(), id.size());
  check(nccl().init_rank(&group_, size, known, rank), "ncclCommInitRank");
}

NcclGroup::~NcclGroup() {
  (void)nccl().destroy(group_);
}

void NcclGroup::all_reduce(float* values, std::int64_t count, Stream stream) const {
  check(nccl().all_reduce(values, values, static_cast<std::size_t>(count), kFloat32, kSum, group_,
                          stream),
        "ncclAllReduce");
}

void NcclGroup::all_gather(float* blocks, std::int64_t count_of_each, Stream stream) const {
  check(nccl().all_gather(blocks + rank_ * count_of_each, blocks,
                          static_cast<std::size_t>(count_of_each), kFloat32, group_, stream),
        "ncclAllGather");
}

void NcclGroup::exchange(const std::function<void()>& calls) const {
  check(nccl().group_start(), "ncclGroupStart");
  calls();
  check(nccl().group_end(), "ncclGroupEnd");
}

void NcclGroup::send(const float* values, std::int64_t count, int to, Stream stream) const {
  check(nccl().send(values, static_cast<std::size_t>(count), kFloat32, to, group_, stream),
        "ncclSend");
}

void NcclGroup::receive(float* values, std::int64_t count, int from, Stream stream) const {
  check(nccl().receive(values, static_cast<std::size_t>(count), kFloat32, from, group_, stream),
        "ncclRecv");
}

}  // namespace lockstep::gpu

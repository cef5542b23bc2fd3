#include "lockstep/comm/host/host_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "lockstep/comm/leaf_layout.h"

namespace lockstep::comm::host {
namespace {

/// Something of `bytes` that is cut into chunks of `chunk`, but for the last.
struct Cut {
  std::size_t bytes;
  std::size_t chunk;

  std::size_t begin(std::size_t index) const { return index * chunk; }
  std::size_t length(std::size_t index) const { return std::min(chunk, bytes - begin(index)); }
  /// Even nothing is exchanged once: instances must meet, and find out whether they agree.
  std::size_t count() const { return std::max<std::size_t>(1, (bytes + chunk - 1) / chunk); }
};

/// How much everybody combines by itself rather than in slices: there, reading what all the others
/// bring costs less than passing the gate once more.
std::size_t at_once_limit(int size) {
  constexpr std::size_t kBytesInAll = std::size_t{64} << 10;
  return kBytesInAll / static_cast<std::size_t>(size);
}

std::int64_t reserve(JobMemory& memory, std::size_t bytes, std::string_view name) {
  try {
    return static_cast<std::int64_t>(memory.reserve(bytes));
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", name, error.what()), error.hint());
  }
}

/// In-place calls hand over the same memory twice.
void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memmove(to, from, bytes);
}

template <typename AnyBuffer>
auto* bytes_at(const AnyBuffer& buffer, std::size_t offset) {
  using Byte = std::conditional_t<std::is_same_v<AnyBuffer, Buffer>, std::byte, const std::byte>;
  return static_cast<Byte*>(buffer.data) + offset;
}

}  // namespace

HostTransport::HostTransport(std::shared_ptr<Member> member, const std::vector<int>& instances,
                             const std::vector<int>& everywhere, std::uint64_t parent)
    : channel_(std::move(member), instances, everywhere.empty() ? instances : everywhere, parent),
      reducers_(static_cast<std::size_t>(ReduceOp::Product) + 1),
      nodes_(static_cast<std::size_t>(size())),
      hosts_(static_cast<std::size_t>(size()), 0) {}

void HostTransport::heartbeat(std::string_view doing) noexcept {
  channel_.member().heartbeat(doing);
}

std::unique_ptr<Transport> HostTransport::group(std::span<const int> instances) {
  return std::make_unique<HostTransport>(channel_.shared_member(),
                                         std::vector<int>(instances.begin(), instances.end()),
                                         std::vector<int>(), channel_.id());
}

void HostTransport::report_failure(const Error& error) noexcept {
  channel_.member().record(error);
}

template <typename Find>
void HostTransport::agree_on_memory(std::size_t bytes, std::string_view name,
                                    std::span<std::int64_t> found, Find find) {
  Operation operation{.kind = OperationKind::Allocate, .root = 0, .name = std::string(name)};
  operation.outputs.push_back({found.data(), std::ssize(found), DataType::I64});
  operation.bytes = bytes;
  channel_.begin(operation);
  channel_.sync();  // everybody asks for as much
  if (rank() == 0) find();
  broadcast(operation);
  channel_.finish();
}

SharedMemory HostTransport::allocate(std::size_t bytes, std::string_view name) {
  auto& memory = channel_.member().memory();
  std::int64_t offset = 0;
  SharedMemory mapped;
  or_fail([&] {
    agree_on_memory(bytes, name, {&offset, 1}, [&] { offset = reserve(memory, bytes, name); });
    mapped = memory.map(static_cast<std::uint64_t>(offset), bytes);
  });
  return mapped;
}

KeptPiece HostTransport::keep(std::size_t bytes, std::string_view name, std::uint64_t fingerprint) {
  auto* kept = channel_.member().kept_memory();
  if (kept == nullptr || size() < channel_.member().num_local_instances())
    return {allocate(bytes, name)};
  std::array<std::int64_t, 2> found{};
  KeptPiece piece;
  or_fail([&] {
    agree_on_memory(bytes, name, found, [&] {
      const auto next = kept->next(name, fingerprint, bytes);
      if (next) found = {static_cast<std::int64_t>(next->offset), next->is_new ? 1 : 0};
    });
    if (found[0] == 0) return;  // there is a header at the beginning
    piece = {kept->map(static_cast<std::uint64_t>(found[0]), bytes), found[1] == 1};
  });
  return found[0] == 0 ? KeptPiece{allocate(bytes, name)} : piece;
}

void HostTransport::note_step(std::int64_t step) noexcept {
  if (auto* kept = channel_.member().kept_memory()) kept->note_step(step);
}

void HostTransport::execute(const Operation& operation) {
  or_fail([&] {
    channel_.begin(operation);
    run(operation);
    channel_.finish();
  });
}

void HostTransport::begin(const Operation& operation) {
  channel_.begin(operation);
  channel_.sync();
}

/// Who leaves an operation in the middle leaves the others in it: they must hear of it, or the next
/// one would be taken for the rest of this one.
template <typename Function>
void HostTransport::or_fail(Function function) {
  try {
    function();
  } catch (const Error& error) {
    channel_.member().fail(error);
  } catch (const std::exception& error) {
    channel_.member().fail(
        Error(ErrorKind::Unavailable,
              fmt::format("{} failed in a collective: {}",
                          channel_.member().name_of(channel_.member().instance()), error.what())));
  }
}

void HostTransport::run(const Operation& operation) {
  switch (operation.kind) {
    case OperationKind::AllReduce:
      return operation.has_leaves() ? all_reduce_leaves(operation)
                                    : all_reduce(operation.outputs, operation.op);
    case OperationKind::ReduceScatter:
      return reduce_scatter(operation);
    case OperationKind::AllGather:
      return all_gather(operation);
    case OperationKind::Broadcast:
      return broadcast(operation);
    case OperationKind::Gather:
      return gather(operation);
    case OperationKind::Scatter:
      return scatter(operation);
    case OperationKind::Barrier:
      return channel_.sync();
    case OperationKind::AllReduceNodes:
      return all_reduce_nodes(operation);
    case OperationKind::Allocate:
      break;
  }
}

template <typename Put, typename Take>
void HostTransport::exchange(std::size_t chunks, Put put, Take take) {
  put(0, chunks_);
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    channel_.sync();
    take(chunk, chunks_ + chunk);
    // Nobody reads this half any more: that was before the passage.
    if (chunk + 1 < chunks) put(chunk + 1, chunks_ + chunk + 1);
  }
  chunks_ += chunks;
}

std::size_t HostTransport::part_of_chunk(int parts) const {
  constexpr auto kAlignment = PackedBuffers::kAlignment;
  return channel_.chunk_bytes() / static_cast<std::size_t>(parts) / kAlignment * kAlignment;
}

Reducer& HostTransport::reducer(ReduceOp op) {
  auto& reducer = reducers_[static_cast<std::size_t>(op)];
  if (!reducer) {
    const std::vector<int> one_each(static_cast<std::size_t>(size()), 1);
    reducer = std::make_unique<Reducer>(ReductionTree(LeafLayout(one_each).nodes, size()), op);
  }
  return *reducer;
}

void HostTransport::all_reduce(std::span<const Buffer> buffers, ReduceOp op) {
  const PackedBuffers packed(buffers);
  if (packed.bytes() <= at_once_limit(size())) {
    all_reduce_at_once(packed, reducer(op));
  } else {
    all_reduce_in_slices(packed, reducer(op));
  }
}

void HostTransport::all_reduce_at_once(const PackedBuffers& buffers, Reducer& reducer) {
  const Slice all{0, buffers.bytes()};
  const auto put = [&](std::size_t, std::uint64_t half) {
    if (size() == 1) return;
    auto* room = channel_.room(rank(), half);
    buffers.for_runs(all,
                     [&](const Run& run) { copy_bytes(room + run.offset, run.data, run.bytes()); });
  };
  const auto take = [&](std::size_t, std::uint64_t half) {
    buffers.for_runs(all, [&](const Run& run) {
      for (int i = 0; i < size(); ++i) {
        nodes_[static_cast<std::size_t>(i)] = {
            i == rank() ? run.data : channel_.room(i, half) + run.offset, run.type};
      }
      reducer.reduce(nodes_, run.count, run.type, run.data, run.type);
    });
  };
  exchange(1, put, take);
}

template <typename Put, typename Nodes>
void HostTransport::combine_in_slices(const PackedBuffers& buffers, std::size_t chunk_bytes,
                                      Reducer& reducer, Put put, Nodes nodes) {
  const auto whole_at = [&](std::size_t chunk) {
    return Slice{chunk * chunk_bytes, std::min(buffers.bytes(), (chunk + 1) * chunk_bytes)};
  };
  const auto mine_at = [&](std::size_t chunk) {
    return slice_of(whole_at(chunk), rank(), size(), PackedBuffers::kAlignment);
  };
  const auto combine = [&](std::size_t chunk, std::uint64_t half) {
    buffers.for_runs(mine_at(chunk), [&](const Run& run) {
      const auto offset = run.offset - chunk * chunk_bytes;
      auto* for_others = size() == 1 ? nullptr : channel_.results(half) + offset;
      reducer.reduce(nodes(run, offset, half), run.count, run.type, run.data, run.type, for_others);
    });
  };
  const auto collect = [&](std::size_t chunk, std::uint64_t half) {
    buffers.for_runs_outside(whole_at(chunk), mine_at(chunk), [&](const Run& run) {
      copy_bytes(run.data, channel_.results(half) + run.offset - chunk * chunk_bytes, run.bytes());
    });
  };

  const auto chunks = Cut{buffers.bytes(), chunk_bytes}.count();
  exchange(
      chunks,
      [&](std::size_t chunk, std::uint64_t half) { put(whole_at(chunk), mine_at(chunk), half); },
      [&](std::size_t chunk, std::uint64_t half) {
        combine(chunk, half);
        if (chunk > 0) collect(chunk - 1, half - 1);
      });
  channel_.sync();
  collect(chunks - 1, chunks_ - 1);
}

void HostTransport::all_reduce_in_slices(const PackedBuffers& buffers, Reducer& reducer) {
  const auto put = [&](Slice whole, Slice mine, std::uint64_t half) {
    auto* room = channel_.room(rank(), half);
    buffers.for_runs_outside(whole, mine, [&](const Run& run) {
      copy_bytes(room + run.offset - whole.begin, run.data, run.bytes());
    });
  };
  const auto nodes = [&](const Run& run, std::size_t offset, std::uint64_t half) {
    for (int i = 0; i < size(); ++i) {
      nodes_[static_cast<std::size_t>(i)] = {
          i == rank() ? run.data : channel_.room(i, half) + offset, run.type};
    }
    return std::span<const NodeData>(nodes_);
  };
  combine_in_slices(buffers, channel_.chunk_bytes(), reducer, put, nodes);
}

/// Each instance folds its leaves into nodes, chunk by chunk, on their way into its room.
void HostTransport::all_reduce_leaves(const Operation& operation) {
  channel_.sync();
  const LeafLayout layout(channel_.leaf_counts());
  const auto type = operation.outputs.front().type;
  const auto accumulator = accumulator_of(type);
  const auto my_leaves = layout.ranges[static_cast<std::size_t>(rank())];
  LeafFolder folder(my_leaves, operation.op);
  Reducer root(ReductionTree(layout.nodes, layout.num_leaves), operation.op);

  // A chunk of the result takes one part of the room for each node, in the accumulator's width.
  const auto part_bytes = part_of_chunk(static_cast<int>(layout.most_nodes));
  const auto chunk_elements =
      part_bytes / size_of(accumulator) / PackedBuffers::kAlignment * PackedBuffers::kAlignment;
  std::vector<std::byte> alone(size() == 1 ? channel_.chunk_bytes() : 0);
  const auto room = [&](int owner, std::uint64_t half) {
    return size() == 1 ? alone.data() : channel_.room(owner, half);
  };

  const auto put = [&](Slice whole, Slice, std::uint64_t half) {
    const auto begin = whole.begin / size_of(type);
    const auto end = std::min(whole.end / size_of(type),
                              static_cast<std::size_t>(operation.outputs.front().count));
    for (std::size_t node = 0; node < folder.num_nodes(); ++node) {
      folder.fold(node, operation.inputs, begin, end - begin,
                  room(rank(), half) + node * part_bytes);
    }
  };
  std::vector<NodeData> node_data(layout.nodes.size());
  const auto nodes = [&](const Run&, std::size_t offset, std::uint64_t half) {
    const auto element = offset / size_of(type) * size_of(accumulator);
    for (std::size_t i = 0; i < node_data.size(); ++i) {
      const auto& source = layout.sources[i];
      node_data[i] = {room(source.rank, half) + source.index * part_bytes + element, accumulator};
    }
    return std::span<const NodeData>(node_data);
  };
  combine_in_slices(PackedBuffers(operation.outputs), chunk_elements * size_of(type), root, put,
                    nodes);
}

/// The only leader brings all nodes.
void HostTransport::all_reduce_nodes(const Operation& operation) {
  channel_.sync();
  const auto& result = operation.outputs.front();
  std::vector<NodeData> data;
  for (const auto& input : operation.inputs) data.push_back({input.data, input.type});
  Reducer(ReductionTree(operation.nodes, operation.num_leaves), operation.op)
      .reduce(data, static_cast<std::size_t>(result.count), result.type, result.data, result.type);
}

void HostTransport::reduce_scatter(const Operation& operation) {
  const auto& blocks = operation.inputs.front();
  const auto& result = operation.outputs.front();
  const auto bytes = bytes_of(result);
  const auto part = part_of_chunk(size());
  const Cut cut{bytes, part};
  const auto put = [&](std::size_t chunk, std::uint64_t half) {
    for (int to = 0; to < size(); ++to) {
      const auto index = static_cast<std::size_t>(to);
      if (to == rank()) continue;
      copy_bytes(channel_.room(rank(), half) + index * part,
                 bytes_at(blocks, index * bytes + cut.begin(chunk)), cut.length(chunk));
    }
  };
  const auto take = [&](std::size_t chunk, std::uint64_t half) {
    const auto mine = static_cast<std::size_t>(rank());
    for (int from = 0; from < size(); ++from) {
      nodes_[static_cast<std::size_t>(from)] = {
          from == rank() ? bytes_at(blocks, mine * bytes + cut.begin(chunk))
                         : channel_.room(from, half) + mine * part,
          result.type};
    }
    reducer(operation.op)
        .reduce(nodes_, cut.length(chunk) / size_of(result.type), result.type,
                bytes_at(result, cut.begin(chunk)), result.type);
  };
  exchange(cut.count(), put, take);
}

void HostTransport::all_gather(const Operation& operation) {
  const auto& block = operation.inputs.front();
  const auto& blocks = operation.outputs.front();
  const auto bytes = bytes_of(block);
  const Cut cut{bytes, channel_.chunk_bytes()};
  const auto place = [&](int from, std::size_t chunk) {
    return bytes_at(blocks, static_cast<std::size_t>(from) * bytes + cut.begin(chunk));
  };
  const auto put = [&](std::size_t chunk, std::uint64_t half) {
    const auto* mine = bytes_at(block, cut.begin(chunk));
    if (size() > 1) copy_bytes(channel_.room(rank(), half), mine, cut.length(chunk));
    // Now, while it is in the cache.
    copy_bytes(place(rank(), chunk), mine, cut.length(chunk));
  };
  const auto take = [&](std::size_t chunk, std::uint64_t half) {
    for (int from = 0; from < size(); ++from) {
      if (from == rank()) continue;
      copy_bytes(place(from, chunk), channel_.room(from, half), cut.length(chunk));
    }
  };
  exchange(cut.count(), put, take);
}

void HostTransport::broadcast(const Operation& operation) {
  const auto& buffer = operation.outputs.front();
  const bool is_root = rank() == operation.root;
  const auto bytes = bytes_of(buffer);
  const Cut cut{bytes, channel_.chunk_bytes()};
  const auto put = [&](std::size_t chunk, std::uint64_t half) {
    if (!is_root || size() == 1) return;
    copy_bytes(channel_.room(rank(), half), bytes_at(buffer, cut.begin(chunk)), cut.length(chunk));
  };
  const auto take = [&](std::size_t chunk, std::uint64_t half) {
    if (is_root || buffer.data == nullptr) return;
    copy_bytes(bytes_at(buffer, cut.begin(chunk)), channel_.room(operation.root, half),
               cut.length(chunk));
  };
  exchange(cut.count(), put, take);
}

void HostTransport::gather(const Operation& operation) {
  const auto& block = operation.inputs.front();
  const bool is_root = rank() == operation.root;
  const auto bytes = bytes_of(block);
  const Cut cut{bytes, channel_.chunk_bytes()};
  const auto put = [&](std::size_t chunk, std::uint64_t half) {
    if (is_root) return;
    copy_bytes(channel_.room(rank(), half), bytes_at(block, cut.begin(chunk)), cut.length(chunk));
  };
  const auto take = [&](std::size_t chunk, std::uint64_t half) {
    if (!is_root) return;
    for (int from = 0; from < size(); ++from) {
      const auto place = static_cast<std::size_t>(from) * bytes + cut.begin(chunk);
      copy_bytes(bytes_at(operation.outputs.front(), place),
                 from == rank() ? bytes_at(block, cut.begin(chunk)) : channel_.room(from, half),
                 cut.length(chunk));
    }
  };
  exchange(cut.count(), put, take);
}

void HostTransport::scatter(const Operation& operation) {
  const auto& block = operation.outputs.front();
  const bool is_root = rank() == operation.root;
  const auto bytes = bytes_of(block);
  const auto part = part_of_chunk(size());
  const Cut cut{bytes, part};
  const auto put = [&](std::size_t chunk, std::uint64_t half) {
    if (!is_root) return;
    for (int to = 0; to < size(); ++to) {
      const auto index = static_cast<std::size_t>(to);
      const auto* from = bytes_at(operation.inputs.front(), index * bytes + cut.begin(chunk));
      auto* place = to == rank() ? bytes_at(block, cut.begin(chunk))
                                 : channel_.room(rank(), half) + index * part;
      copy_bytes(place, from, cut.length(chunk));
    }
  };
  const auto take = [&](std::size_t chunk, std::uint64_t half) {
    if (is_root) return;
    copy_bytes(bytes_at(block, cut.begin(chunk)),
               channel_.room(operation.root, half) + static_cast<std::size_t>(rank()) * part,
               cut.length(chunk));
  };
  exchange(cut.count(), put, take);
}

}  // namespace lockstep::comm::host

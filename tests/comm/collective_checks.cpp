#include "tests/comm/collective_checks.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <functional>
#include <stdexcept>

#include "lockstep/comm/tree_node.h"
#include "lockstep/topology/placement.h"

namespace lockstep::testing {
namespace {

using comm::Buffer;
using comm::Communicator;
using comm::ConstBuffer;
using comm::OperationKind;
using comm::ReduceOp;
using Bytes = std::vector<std::byte>;

/// splitmix64: fast, and the same everywhere.
class Random {
 public:
  Random(std::uint64_t seed, int leaf)
      : state_(seed * 1000003 + static_cast<std::uint64_t>(leaf) * 0x123456789U) {}

  std::uint64_t operator()() {
    auto value = state_ += 0x9e3779b97f4a7c15U;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31);
  }

 private:
  std::uint64_t state_;
};

/// A number of any size that makes rounding visible.
double any_number(Random& random) {
  const auto bits = random();
  const auto sign = bits % 2 == 0 ? 1.0 : -1.0;
  const double mantissa = 1.0 + static_cast<double>((bits >> 1) % (1 << 20)) / (1 << 20);
  return sign * mantissa * static_cast<double>(1 << ((bits >> 32) % 12)) / 64;
}

template <typename T>
T any_element(Random& random) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(any_number(random));
  } else {
    return static_cast<T>(random());
  }
}

template <typename Accumulator>
Accumulator combine(ReduceOp op, Accumulator left, Accumulator right) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Mean:
      if constexpr (std::is_integral_v<Accumulator>) {
        return static_cast<Accumulator>(static_cast<std::uint64_t>(left) +
                                        static_cast<std::uint64_t>(right));
      } else {
        return left + right;
      }
    case ReduceOp::Min:
      return std::min(left, right);
    case ReduceOp::Max:
      return std::max(left, right);
    case ReduceOp::Product:
      if constexpr (std::is_integral_v<Accumulator>) {
        return static_cast<Accumulator>(static_cast<std::uint64_t>(left) *
                                        static_cast<std::uint64_t>(right));
      } else {
        return left * right;
      }
  }
  return left;
}

/// Node [first, first + width), as the design defines it.
template <typename Accumulator>
Accumulator node(ReduceOp op, const std::vector<Accumulator>& leaves, std::size_t first,
                 std::size_t width) {
  if (width == 1) return leaves[first];
  const auto left = node(op, leaves, first, width / 2);
  if (first + width / 2 >= leaves.size()) return left;
  return combine(op, left, node(op, leaves, first + width / 2, width / 2));
}

/// bf16 without the compiler's help: g++ 12 has no such type.
struct ReferenceBf16 {
  std::uint16_t bits = 0;
  explicit ReferenceBf16(float value) {
    // To nearest, ties to even, by comparing distances.
    const auto whole = std::bit_cast<std::uint32_t>(value);
    const auto below = whole & 0xffff0000U;
    const auto rest = whole & 0xffffU;
    const bool up = rest > 0x8000U || (rest == 0x8000U && (below & 0x10000U) != 0);
    bits = static_cast<std::uint16_t>((up ? below + 0x10000U : below) >> 16);
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

template <typename Element, typename Accumulator>
Bytes reduce_as(ReduceOp op, std::int64_t count, const std::vector<Bytes>& leaves) {
  Bytes result(static_cast<std::size_t>(count) * sizeof(Element));
  const auto width = std::bit_ceil(leaves.size());
  std::vector<Accumulator> values;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    values.clear();
    for (const auto& leaf : leaves) {
      Element element{Accumulator{}};
      std::memcpy(&element, leaf.data() + i * sizeof(Element), sizeof(Element));
      values.push_back(static_cast<Accumulator>(element));
    }
    auto value = node(op, values, 0, width);
    if (op == ReduceOp::Mean) value /= static_cast<Accumulator>(leaves.size());
    const auto element = static_cast<Element>(value);
    std::memcpy(result.data() + i * sizeof(Element), &element, sizeof(Element));
  }
  return result;
}

template <typename Element, typename Value = Element>
Bytes elements_as(std::int64_t count, Random random) {
  Bytes bytes(static_cast<std::size_t>(count) * sizeof(Element));
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const auto element = static_cast<Element>(any_element<Value>(random));
    std::memcpy(bytes.data() + i * sizeof(Element), &element, sizeof(Element));
  }
  return bytes;
}

Bytes reduce(DataType type, ReduceOp op, std::int64_t count, const std::vector<Bytes>& leaves) {
  switch (type) {
    case DataType::F16:
      return reduce_as<_Float16, float>(op, count, leaves);
    case DataType::BF16:
      return reduce_as<ReferenceBf16, float>(op, count, leaves);
    case DataType::F32:
      return reduce_as<float, float>(op, count, leaves);
    case DataType::F64:
      return reduce_as<double, double>(op, count, leaves);
    case DataType::I32:
      return reduce_as<std::int32_t, std::int64_t>(op, count, leaves);
    case DataType::I64:
      return reduce_as<std::int64_t, std::int64_t>(op, count, leaves);
    case DataType::U8:
      return reduce_as<std::uint8_t, std::int64_t>(op, count, leaves);
  }
  return {};
}

void expect_equal(const CollectiveCase& collective, const Communicator& communicator,
                  const Bytes& found, const Bytes& expected) {
  if (found == expected) return;
  const auto different = std::mismatch(found.begin(), found.end(), expected.begin());
  throw std::runtime_error(fmt::format(
      "{}: rank {} of {} has a wrong byte at {} of {}", to_string(collective), communicator.rank(),
      communicator.size(), different.first - found.begin(), found.size()));
}

Bytes concatenated(const std::vector<Bytes>& parts) {
  Bytes all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// What all instances bring, and what this one should have in the end.
struct Scene {
  std::vector<Bytes> brought;  ///< by rank
  Bytes expected;
};

Scene scene_of(const Communicator& communicator, const CollectiveCase& c) {
  const auto size = static_cast<std::size_t>(communicator.size());
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const bool brings_blocks =
      c.kind == OperationKind::ReduceScatter || c.kind == OperationKind::Scatter;
  const auto count = brings_blocks ? c.count * communicator.size() : c.count;
  Scene scene;
  for (std::size_t i = 0; i < size; ++i) {
    scene.brought.push_back(elements_of(c.type, count, c.seed, static_cast<int>(i)));
  }
  const auto block =
      static_cast<std::ptrdiff_t>(static_cast<std::size_t>(c.count) * size_of(c.type));
  const auto block_of = [&](const Bytes& all, std::size_t index) {
    const auto begin = all.begin() + block * static_cast<std::ptrdiff_t>(index);
    return Bytes(begin, begin + block);
  };
  switch (c.kind) {
    case OperationKind::AllReduce:
      scene.expected = reduce(c.type, c.op, c.count, scene.brought);
      break;
    case OperationKind::ReduceScatter:
      scene.expected = block_of(reduce(c.type, c.op, count, scene.brought), rank);
      break;
    case OperationKind::AllGather:
      scene.expected = concatenated(scene.brought);
      break;
    case OperationKind::Broadcast:
      scene.expected = scene.brought[static_cast<std::size_t>(c.root)];
      break;
    case OperationKind::Gather:
      if (communicator.rank() == c.root) scene.expected = concatenated(scene.brought);
      break;
    case OperationKind::Scatter:
      scene.expected = block_of(scene.brought[static_cast<std::size_t>(c.root)], rank);
      break;
    case OperationKind::AllReduceNodes:  // `check_nodes`
    case OperationKind::Barrier:
    case OperationKind::Allocate:
      break;
  }
  return scene;
}

/// Runs a collective on `mine` and returns what this instance has afterwards. `Target` is a
/// communicator or its asynchronous face.
template <typename Target>
auto call(Target&& target, const CollectiveCase& c, int size, Bytes& mine, Bytes& result) {
  const auto in = [&](std::int64_t count) {
    return ConstBuffer(mine.data(), count, c.type, "data");
  };
  const auto out = [&](Bytes& bytes, std::int64_t count) {
    return Buffer{bytes.data(), count, c.type, "data"};
  };
  const auto block = static_cast<std::size_t>(c.count) * size_of(c.type);
  const auto count_of_all = c.count * size;
  switch (c.kind) {
    case OperationKind::AllReduce:
      result = mine;
      return target.all_reduce(out(result, c.count), c.op);
    case OperationKind::ReduceScatter:
      result.resize(block);
      return target.reduce_scatter(in(count_of_all), out(result, c.count), c.op);
    case OperationKind::AllGather:
      result.resize(block * static_cast<std::size_t>(size));
      return target.all_gather(in(c.count), out(result, count_of_all));
    case OperationKind::Broadcast:
      result = mine;
      return target.broadcast(out(result, c.count), c.root);
    case OperationKind::Gather:
      result.resize(block * static_cast<std::size_t>(size));
      return target.gather(in(c.count), out(result, count_of_all), c.root);
    case OperationKind::Scatter:
      result.resize(block);
      return target.scatter(in(count_of_all), out(result, c.count), c.root);
    case OperationKind::AllReduceNodes:  // `check_nodes`
    case OperationKind::Barrier:
    case OperationKind::Allocate:
      break;
  }
  return target.barrier();
}

}  // namespace

std::string to_string(const CollectiveCase& c) {
  return fmt::format("{} {} {} x {}, root {}, seed {}", name_of(c.kind), name_of(c.op), c.count,
                     name_of(c.type), c.root, c.seed);
}

Bytes elements_of(DataType type, std::int64_t count, std::uint64_t seed, int leaf) {
  const Random random(seed, leaf);
  switch (type) {
    case DataType::F16:
      return elements_as<_Float16, float>(count, random);
    case DataType::BF16:
      return elements_as<ReferenceBf16, float>(count, random);
    case DataType::F32:
      return elements_as<float>(count, random);
    case DataType::F64:
      return elements_as<double>(count, random);
    case DataType::I32:
      return elements_as<std::int32_t>(count, random);
    case DataType::I64:
      return elements_as<std::int64_t>(count, random);
    case DataType::U8:
      return elements_as<std::uint8_t>(count, random);
  }
  return {};
}

Bytes reduced(DataType type, ReduceOp op, std::int64_t count, std::uint64_t seed, int num_leaves) {
  std::vector<Bytes> leaves;
  for (int leaf = 0; leaf < num_leaves; ++leaf) {
    leaves.push_back(elements_of(type, count, seed, leaf));
  }
  return reduce(type, op, count, leaves);
}

std::vector<CollectiveCase> all_collectives() {
  std::vector<CollectiveCase> cases;
  std::uint64_t seed = 0;
  for (int kind = 0; kind <= static_cast<int>(OperationKind::Barrier); ++kind) {
    for (int type = 0; type <= static_cast<int>(DataType::U8); ++type) {
      for (int op = 0; op <= static_cast<int>(ReduceOp::Product); ++op) {
        if (op > 0 && !combines(static_cast<OperationKind>(kind))) break;
        // A chunk has at most 512 KiB: the largest of these takes several.
        for (const std::int64_t count : {0, 1, 77, 6000, 140000}) {
          const bool is_large = count > 6000;
          if (is_large && (op > 0 || type != static_cast<int>(DataType::F32))) continue;
          cases.push_back({static_cast<OperationKind>(kind), static_cast<DataType>(type),
                           static_cast<ReduceOp>(op), count, 0, ++seed});
        }
      }
    }
  }
  return cases;
}

void check_collective(Communicator& communicator, const CollectiveCase& collective) {
  auto scene = scene_of(communicator, collective);
  auto& mine = scene.brought[static_cast<std::size_t>(communicator.rank())];
  Bytes result;
  call(communicator, collective, communicator.size(), mine, result);
  const bool has_result =
      collective.kind != OperationKind::Gather || communicator.rank() == collective.root;
  if (has_result) expect_equal(collective, communicator, result, scene.expected);
}

void check_leaves(Communicator& communicator, DataType type, ReduceOp op, std::int64_t count,
                  int num_leaves) {
  const std::uint64_t seed = 17;
  const auto mine = topology::replicas_of(
      communicator.rank(), {.replicas = num_leaves, .instances = communicator.size()});
  std::vector<Bytes> data;
  std::vector<ConstBuffer> leaves;
  data.reserve(static_cast<std::size_t>(mine.count));
  for (int i = 0; i < mine.count; ++i) {
    data.push_back(elements_of(type, count, seed, mine.first + i));
    leaves.emplace_back(data.back().data(), count, type);
  }
  Bytes result(static_cast<std::size_t>(count) * size_of(type));
  communicator.all_reduce_leaves(leaves, {result.data(), count, type, "leaves"}, op);
  expect_equal({OperationKind::AllReduce, type, op, count, num_leaves, seed}, communicator, result,
               reduced(type, op, count, seed, num_leaves));
}

void check_nodes(Communicator& leaders, DataType type, std::int64_t count, int num_leaves) {
  const std::uint64_t seed = 23;
  std::vector<Bytes> data;
  std::vector<comm::TreeNode> nodes;
  std::vector<ConstBuffer> buffers;
  data.reserve(static_cast<std::size_t>(num_leaves));
  // Dealt out in turns, so that nothing is combined before it travels: 16-bit nodes would round.
  for (int leaf = leaders.rank(); leaf < num_leaves; leaf += leaders.size()) {
    data.push_back(elements_of(type, count, seed, leaf));
    nodes.push_back({leaf, 1});
    buffers.emplace_back(data.back().data(), count, type);
  }
  const auto bytes = static_cast<std::size_t>(count) * size_of(type);
  Bytes result(bytes);
  // Half of them in place.
  void* target = leaders.rank() % 2 == 0 || data.empty() ? result.data() : data.front().data();
  leaders.all_reduce_nodes(nodes, buffers, num_leaves, {target, count, type, "nodes"});
  if (bytes > 0) std::memcpy(result.data(), target, bytes);
  expect_equal({OperationKind::AllReduceNodes, type, ReduceOp::Sum, count, num_leaves, seed},
               leaders, result, reduced(type, ReduceOp::Sum, count, seed, num_leaves));
}

void check_mixture(Communicator& communicator, int rounds, std::uint64_t seed) {
  // The same choices on every instance.
  Random random(seed, 0);
  for (int round = 0; round < rounds; ++round) {
    CollectiveCase c;
    c.kind = static_cast<OperationKind>(random() % 7);
    c.type = static_cast<DataType>(random() % 7);
    c.op = static_cast<ReduceOp>(random() % 5);
    // Small ones are the common case; now and then one of many chunks.
    c.count = static_cast<std::int64_t>(random() % (random() % 50 == 0 ? 40000 : 300));
    c.root = static_cast<int>(random() % static_cast<std::uint64_t>(communicator.size()));
    c.seed = random();
    const auto way = random() % 8;
    if (way == 0) {
      auto scene = scene_of(communicator, c);
      auto& mine = scene.brought[static_cast<std::size_t>(communicator.rank())];
      Bytes result;
      call(communicator.async(), c, communicator.size(), mine, result).wait();
      if (c.kind != OperationKind::Gather || communicator.rank() == c.root) {
        expect_equal(c, communicator, result, scene.expected);
      }
    } else if (way == 1) {
      c.root = 0;
      std::vector<int> members;
      for (const int instance : communicator.instances()) {
        if (random() % 2 == 0) members.push_back(instance);
      }
      if (members.empty()) members.push_back(communicator.instances().front());
      communicator.on_instances(members, [&](Communicator& group) { check_collective(group, c); });
    } else {
      check_collective(communicator, c);
    }
  }
}

}  // namespace lockstep::testing

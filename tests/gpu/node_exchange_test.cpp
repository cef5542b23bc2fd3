#include "lockstep/gpu/update/node_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/comm/ordered_reduction.h"
#include "tests/gpu/numbers.h"
#include "tests/gpu/on_device.h"

namespace lockstep::gpu {
namespace {

/// A leaf of the tree for each number, combined by whoever has all of them.
float root_of(const Floats& leaves) {
  std::vector<comm::TreeNode> nodes;
  std::vector<comm::NodeData> data;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    nodes.push_back({static_cast<int>(i), 1});
    data.push_back({&leaves[i], DataType::F32});
  }
  comm::Reducer reducer({nodes, static_cast<int>(leaves.size())}, comm::ReduceOp::Sum);
  float root = 0;
  reducer.reduce(data, 1, DataType::F32, &root, DataType::F32);
  return root;
}

/// The nodes that one instance makes of its leaves.
Floats nodes_of(const LeafSteps& steps, std::span<const float> leaves) {
  Floats rows(static_cast<std::size_t>(steps.num_rows));
  for (std::size_t leaf = 0; leaf < steps.steps.size(); ++leaf) {
    const auto& step = steps.steps[leaf];
    auto& row = rows[static_cast<std::size_t>(step.row)];
    row = step.combine == Combine::Write ? leaves[leaf] : row + leaves[leaf];
    for (const auto& [left, right] : step.additions) {
      rows[static_cast<std::size_t>(left)] += rows[static_cast<std::size_t>(right)];
    }
  }
  Floats nodes;
  for (const int row : steps.nodes) nodes.push_back(rows[static_cast<std::size_t>(row)]);
  return nodes;
}

/// What all instances come to, where each brings so many of the leaves.
float exchanged(const std::vector<int>& counts, const Floats& leaves) {
  std::vector<Floats> sent;
  int first = 0;
  for (const int count : counts) {
    sent.push_back(nodes_of(leaf_steps(comm::LeafRange{first, count}),
                            std::span(leaves).subspan(static_cast<std::size_t>(first),
                                                      static_cast<std::size_t>(count))));
    first += count;
  }
  const auto plan = plan_exchange(counts, 1);
  std::vector<std::size_t> next(counts.size());
  Floats slots(static_cast<std::size_t>(plan.num_slots));
  for (const auto& [from, slot] : plan.arrivals) {
    const auto rank = static_cast<std::size_t>(from);
    slots[static_cast<std::size_t>(slot)] = sent[rank].at(next[rank]++);
  }
  for (const auto& [left, right] : plan.additions) {
    slots[static_cast<std::size_t>(left)] += slots[static_cast<std::size_t>(right)];
  }
  return slots[0];
}

TEST(NodeExchangeTest, HasTheBitsOfOneInstance) {
  const std::vector<std::vector<int>> layouts{{1},       {7},       {4, 4},       {2, 2, 2, 2},
                                              {3, 3, 2}, {5, 4, 4}, {1, 1, 1, 1}, {6, 1, 9, 3, 2}};
  for (const auto& counts : layouts) {
    const auto total = std::accumulate(counts.begin(), counts.end(), 0);
    const auto leaves = wide_floats(static_cast<std::size_t>(total), 5, 3);
    EXPECT_TRUE(same_bits(exchanged(counts, leaves), root_of(leaves)))
        << ::testing::PrintToString(counts);
  }
}

TEST(NodeExchangeTest, CutsRowsIntoEqualSlices) {
  for (const std::int64_t elements : {1, 32, 33, 1000, 123'457}) {
    for (const int size : {1, 2, 3, 8}) {
      const auto plan =
          plan_exchange(std::vector<int>(static_cast<std::size_t>(size), 1), elements);
      EXPECT_EQ(plan.slice % 32, 0);
      EXPECT_GE(plan.padded(size), elements);
      EXPECT_LT(plan.padded(size), elements + 32 * size);
    }
  }
}

TEST(NcclTest, RefusesInABuildWithoutCuda) {
  if (is_built()) GTEST_SKIP() << "this build has CUDA";
  EXPECT_THROW(NcclGroup::make_id(), Error);
}

using NodeExchangeOnDeviceTest = DeviceTest;

TEST_F(NodeExchangeOnDeviceTest, AddsUpWithOneRank) {
  constexpr int kLeaves = 7;  // three nodes
  constexpr std::int64_t kElements = 10'001;
  const auto group = std::make_shared<NcclGroup>(NcclGroup::make_id(), 0, 1);
  const NodeExchange exchange(group, std::vector<int>{kLeaves}, kElements);
  const auto length = static_cast<std::size_t>(exchange.row_length());
  std::vector<Floats> rows;
  for (unsigned i = 0; i < 3; ++i) rows.push_back(wide_floats(length, i, 5));
  Floats expected(length);
  for (std::size_t i = 0; i < length; ++i) expected[i] = rows[0][i] + (rows[1][i] + rows[2][i]);
  const OnDevice<float> first(rows[0]);
  const OnDevice<float> second(rows[1]);
  const OnDevice<float> third(rows[2]);
  const std::vector<float*> nodes{first.data(), second.data(), third.data()};
  const OnDevice<float> result(length);
  exchange.sum_ordered(nodes, result.data(), nullptr);
  expect_same_bits(result.values(), expected, "ordered");

  for (std::size_t i = 0; i < length; ++i) expected[i] = (rows[0][i] + rows[1][i]) + rows[2][i];
  exchange.sum_fast(nodes, result.data(), nullptr);
  expect_same_bits(result.values(), expected, "fast");
}

}  // namespace
}  // namespace lockstep::gpu

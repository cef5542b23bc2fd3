#include "lockstep/comm/ordered_reduction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/leaf_counter.h"
#include "lockstep/comm/leaf_layout.h"
#include "tests/comm/collective_checks.h"

namespace lockstep::comm {

void PrintTo(const TreeNode& node, std::ostream* out) {
  *out << "[" << node.first << ", " << node.first + node.width << ")";
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(NodesOfTest, AreTheLargestThatLieWithinARange) {
  EXPECT_THAT(nodes_of({0, 8}), ElementsAre(TreeNode{0, 8}));
  EXPECT_THAT(nodes_of({3, 3}), ElementsAre(TreeNode{3, 1}, TreeNode{4, 2}));
  EXPECT_THAT(nodes_of({1, 7}), ElementsAre(TreeNode{1, 1}, TreeNode{2, 2}, TreeNode{4, 4}));
  EXPECT_THAT(nodes_of({5, 1}), ElementsAre(TreeNode{5, 1}));
  EXPECT_THAT(nodes_of({0, 0}), IsEmpty());
}

TEST(ReductionTreeTest, RefusesNodesThatAreNoPartition) {
  const std::vector<TreeNode> hole{{0, 1}, {2, 1}};
  EXPECT_THROW(ReductionTree(hole, 3), Error);
  const std::vector<TreeNode> too_many{{0, 2}, {2, 1}};
  EXPECT_THROW(ReductionTree(too_many, 2), Error);
}

TEST(ReductionTreeTest, NeedsNoStepForOneNode) {
  const std::vector<TreeNode> root{{0, 4}};
  EXPECT_THAT(ReductionTree(root, 4).steps(), IsEmpty());
}

TEST(ReducerTest, GivesTheTreesBitsForEveryNumberOfLeaves) {
  constexpr std::int64_t kCount = 2500;  // more than two tiles
  for (int leaves = 1; leaves <= 33; ++leaves) {
    std::vector<std::vector<std::byte>> data;
    std::vector<NodeData> nodes;
    for (int leaf = 0; leaf < leaves; ++leaf) {
      data.push_back(testing::elements_of(DataType::F32, kCount, 3, leaf));
    }
    for (const auto& leaf : data) nodes.push_back({leaf.data(), DataType::F32});
    const std::vector<int> counts(static_cast<std::size_t>(leaves), 1);
    Reducer reducer(ReductionTree(LeafLayout(counts).nodes, leaves), ReduceOp::Sum);
    std::vector<std::byte> result(kCount * sizeof(float));
    reducer.reduce(nodes, kCount, DataType::F32, result.data(), DataType::F32);
    EXPECT_EQ(result, testing::reduced(DataType::F32, ReduceOp::Sum, kCount, 3, leaves)) << leaves;
  }
}

TEST(LeafCounterTest, FoldsAsTheLeavesComeAndEndsWithTheNodesOfTheRange) {
  for (int first = 0; first < 20; ++first) {
    for (int count = 1; count < 40; ++count) {
      LeafCounter counter({first, count});
      while (counter.num_missing() > 0) counter.take();
      std::vector<TreeNode> held;
      for (const auto& node : counter.held()) held.push_back(node.node);
      EXPECT_EQ(held, nodes_of({first, count})) << first << " " << count;
    }
  }
}

TEST(LeafCounterTest, NeedsAboutTheLogarithmOfTheLeavesInBuffers) {
  EXPECT_EQ(num_buffers_for({0, 1}), 1);
  EXPECT_EQ(num_buffers_for({0, 2}), 2);
  EXPECT_EQ(num_buffers_for({0, 8}), 4);
  EXPECT_EQ(num_buffers_for({0, 1024}), 11);
  EXPECT_LE(num_buffers_for({1, 1023}), 20);
}

TEST(LeafCounterTest, StartsAgain) {
  LeafCounter counter({2, 2});
  counter.take();
  counter.restart();
  EXPECT_EQ(counter.num_missing(), 2);
  EXPECT_EQ(counter.next_buffer(), 0);
}

}  // namespace
}  // namespace lockstep::comm

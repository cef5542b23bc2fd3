#include "lockstep/gpu/update/leaf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "lockstep/base/half.h"
#include "lockstep/comm/ordered_reduction.h"
#include "lockstep/gpu/update/leaf_steps.h"
#include "lockstep/optimizer/update_kernels.h"
#include "tests/gpu/numbers.h"
#include "tests/gpu/on_device.h"

namespace lockstep::gpu {
namespace {

/// How the tree adds leaves, as text: "((0+1)+2)".
std::string tree_of(int first, int width, int leaves) {
  if (width == 1) return std::to_string(first);
  const int half = width / 2;
  const auto left = tree_of(first, half, leaves);
  if (first + half >= leaves) return left;
  return "(" + left + "+" + tree_of(first + half, half, leaves) + ")";
}

/// What stands where the nodes are.
std::vector<std::string> nodes_of(const LeafSteps& steps) {
  std::vector<std::string> rows(static_cast<std::size_t>(steps.num_rows), "unset");
  const auto add = [&](std::string& left, const std::string& right) {
    left = "(" + left + "+" + right + ")";
  };
  for (std::size_t leaf = 0; leaf < steps.steps.size(); ++leaf) {
    const auto& step = steps.steps[leaf];
    auto& row = rows.at(static_cast<std::size_t>(step.row));
    if (step.combine == Combine::Write) {
      row = std::to_string(leaf);
    } else {
      add(row, std::to_string(leaf));
    }
    for (const auto& [left, right] : step.additions) {
      add(rows.at(static_cast<std::size_t>(left)), rows.at(static_cast<std::size_t>(right)));
      rows[static_cast<std::size_t>(right)] = "free";
    }
  }
  std::vector<std::string> nodes;
  for (const int row : steps.nodes) nodes.push_back(rows[static_cast<std::size_t>(row)]);
  return nodes;
}

std::string sum_of(const LeafSteps& steps) {
  return nodes_of(steps).front();
}

TEST(LeafStepsTest, FollowTheFixedTree) {
  EXPECT_EQ(sum_of(leaf_steps(7)), "(((0+1)+(2+3))+((4+5)+6))");
  for (int leaves = 1; leaves <= 40; ++leaves) {
    const auto width = static_cast<int>(std::bit_ceil(static_cast<unsigned>(leaves)));
    EXPECT_EQ(sum_of(leaf_steps(leaves)), tree_of(0, width, leaves)) << leaves;
  }
}

TEST(LeafStepsTest, OfSomeLeavesEndAtTheirLargestNodes) {
  for (const comm::LeafRange range : {comm::LeafRange{0, 4}, {4, 4}, {3, 5}, {6, 7}, {1, 1}}) {
    const auto steps = leaf_steps(range);
    std::vector<std::string> expected;
    for (const auto& node : comm::nodes_of(range)) {
      expected.push_back(tree_of(node.first - range.first, node.width, 1000));
    }
    EXPECT_EQ(nodes_of(steps), expected) << range.first << ", " << range.count;
  }
}

TEST(LeafStepsTest, NeedAboutTheLogarithmOfTheLeavesInRows) {
  EXPECT_EQ(leaf_steps(1).num_rows, 1);
  EXPECT_EQ(leaf_steps(2).num_rows, 1);
  EXPECT_EQ(leaf_steps(3).num_rows, 1);
  EXPECT_EQ(leaf_steps(8).num_rows, 3);
  EXPECT_EQ(leaf_steps(17).num_rows, 4);
}

TEST(LeafTest, RefusesInABuildWithoutCuda) {
  if (is_built()) GTEST_SKIP() << "this build has CUDA";
  EXPECT_ANY_THROW(gather({}, nullptr));
  EXPECT_ANY_THROW(add_rows(nullptr, nullptr, 1, nullptr));
}

struct Source {
  DataType type = DataType::F32;
  std::int64_t count = 0;
  std::size_t offset = 0;  ///< elements of its memory that stand before it
  bool is_missing = false;
  bool is_buffer = false;
};

// Sizes about a vector, a block of threads and a chunk; memory that is aligned, and that is not.
const std::vector<Source> kSources{
    {.type = DataType::F32, .count = 1},
    {.type = DataType::BF16, .count = 10007},
    {.type = DataType::F16, .count = 4096},
    {.type = DataType::F32, .count = 5003, .offset = 1},
    {.type = DataType::BF16, .count = 64, .offset = 2},
    {.type = DataType::F16, .count = 3000, .offset = 3},
    {.type = DataType::BF16, .count = 4099, .is_missing = true},
    {.type = DataType::F32, .count = 4097},
    {.type = DataType::BF16, .count = 3},
    {.type = DataType::F32, .count = 2049, .is_buffer = true},
    {.type = DataType::F32, .count = 7, .offset = 2, .is_buffer = true},
    {.type = DataType::BF16, .count = 4100, .is_buffer = true},
    {.type = DataType::F16, .count = 100, .is_buffer = true},
};

/// A tensor of a replica: its numbers here, and in the GPU's memory.
class GivenTensor {
 public:
  GivenTensor(const Source& source, unsigned seed)
      : values(wide_floats(static_cast<std::size_t>(source.count), seed, 20)), source_(source) {
    if (values.size() > 40) {
      values[33] = std::numeric_limits<float>::infinity();
      values[34] = std::numeric_limits<float>::quiet_NaN();
      values[35] = -0.0F;
      values[36] = 65519.99F;  // the largest that is finite in f16
      values[37] = 65520;
    }
    if (source.is_missing) {
      values.assign(values.size(), 0);
    } else if (source.type == DataType::F32) {
      Floats padded(source.offset, 1);
      padded.insert(padded.end(), values.begin(), values.end());
      floats_.emplace(padded);
    } else {
      upload_halves();
    }
  }

  const void* data() const {
    if (floats_) return floats_->data() + source_.offset;
    if (halves_) return halves_->data() + source_.offset;
    return nullptr;
  }

  Floats values;

 private:
  void upload_halves() {
    std::vector<std::uint16_t> bits(source_.offset, 1);
    for (auto& value : values) {
      const bool is_f16 = source_.type == DataType::F16;
      bits.push_back(is_f16 ? to_float16(value).bits : to_bfloat16(value).bits);
      value = is_f16 ? to_float(Float16{bits.back()}) : to_float(BFloat16{bits.back()});
    }
    halves_.emplace(bits);
  }

  Source source_;
  std::optional<OnDevice<float>> floats_;
  std::optional<OnDevice<std::uint16_t>> halves_;
};

/// All sources, each at a multiple of so many elements in the flat row.
class GivenLeaf {
 public:
  explicit GivenLeaf(std::int64_t unit) {
    unsigned seed = 1;
    for (const auto& source : kSources) {
      tensors_.emplace_back(source, seed++);
      extents_.push_back({count_, source.count});
      table_.push_back({.data = tensors_.back().data(),
                        .first = count_,
                        .type = source.type,
                        .is_buffer = source.is_buffer});
      count_ += (source.count + unit - 1) / unit * unit + unit;  // always a gap
    }
  }

  std::size_t count() const { return static_cast<std::size_t>(count_); }
  std::vector<Chunk> chunks() const { return cut_into_chunks(extents_); }
  const std::vector<LeafTensor>& table() const { return table_; }

  Floats expected(DataType type, float scale, Combine combine, Floats node) const {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      auto leaf = tensors_[i].values;
      if (!kSources[i].is_buffer) optimizer::round_leaf(type, scale, leaf, leaf);
      auto* const at = node.data() + extents_[i].first;
      for (std::size_t k = 0; k < leaf.size(); ++k) {
        at[k] = combine == Combine::Add ? at[k] + leaf[k] : leaf[k];
      }
    }
    return node;
  }

 private:
  std::vector<GivenTensor> tensors_;
  std::vector<Extent> extents_;
  std::vector<LeafTensor> table_;
  std::int64_t count_ = 0;
};

using LeafOnDeviceTest = DeviceTest;

TEST_F(LeafOnDeviceTest, GathersEveryTypeAtEveryPlace) {
  for (const std::int64_t unit : {16, 1}) {
    const GivenLeaf leaf(unit);
    const auto table = leaf.chunks();
    const OnDevice<Chunk> chunks(table);
    const OnDevice<LeafTensor> tensors(leaf.table());
    for (const auto type : {DataType::F32, DataType::F16, DataType::BF16}) {
      for (const auto combine : {Combine::Write, Combine::Add}) {
        for (const float scale : {1.0F, 65536.0F}) {
          const auto before = wide_floats(leaf.count(), 99);
          const OnDevice<float> node(before);
          const OnDevice<StepControl> control(std::vector<StepControl>{{.loss_scale = scale}});
          gather({.tensors = tensors.data(),
                  .chunks = {chunks.data(), static_cast<std::int32_t>(table.size())},
                  .leaf_type = type,
                  .combine = combine,
                  .node = node.data(),
                  .control = control.data()},
                 nullptr);
          expect_same_bits(node.values(), leaf.expected(type, scale, combine, before),
                           std::string(name_of(type)) + " at multiples of " + std::to_string(unit) +
                               ", scale " + std::to_string(scale) +
                               (combine == Combine::Add ? ", added" : ", written"));
        }
      }
    }
  }
}

TEST_F(LeafOnDeviceTest, AddsRowsOfEveryLengthAndPlace) {
  for (const std::size_t count : {1, 5, 4096, 4099, 100003}) {
    for (const std::size_t offset : {0, 1, 4}) {
      const auto left = wide_floats(count + offset, 1);
      const auto right = wide_floats(count, 2);
      const OnDevice<float> left_there(left);
      const OnDevice<float> right_there(right);
      add_rows(left_there.data() + offset, right_there.data(), static_cast<std::int64_t>(count),
               nullptr);
      auto expected = left;
      for (std::size_t i = 0; i < count; ++i) expected[offset + i] += right[i];
      expect_same_bits(left_there.values(), expected, std::to_string(count));
    }
  }
}

Floats tree_sum(const std::vector<Floats>& leaves, std::size_t first, std::size_t width) {
  if (width == 1) return leaves[first];
  const auto half = width / 2;
  auto sum = tree_sum(leaves, first, half);
  if (first + half >= leaves.size()) return sum;
  const auto right = tree_sum(leaves, first + half, half);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += right[i];
  return sum;
}

TEST_F(LeafOnDeviceTest, AddsLeavesAlongTheTree) {
  constexpr std::int64_t kCount = 5001;
  const std::vector<Extent> extents{{0, kCount}};
  const auto table = cut_into_chunks(extents);
  const OnDevice<Chunk> chunks(table);
  const OnDevice<StepControl> control(std::vector<StepControl>(1));
  for (int num_leaves = 1; num_leaves <= 17; ++num_leaves) {
    const auto steps = leaf_steps(num_leaves);
    std::vector<OnDevice<float>> rows;
    for (int i = 0; i < steps.num_rows; ++i) rows.emplace_back(kCount);
    const auto row = [&](int index) { return rows[static_cast<std::size_t>(index)].data(); };
    std::vector<Floats> leaves;
    for (const auto& step : steps.steps) {
      leaves.push_back(plain_floats(kCount, static_cast<unsigned>(leaves.size())));
      const OnDevice<float> gradient(leaves.back());
      const OnDevice<LeafTensor> tensor(std::vector<LeafTensor>{{.data = gradient.data()}});
      gather({.tensors = tensor.data(),
              .chunks = {chunks.data(), static_cast<std::int32_t>(table.size())},
              .combine = step.combine,
              .node = row(step.row),
              .control = control.data()},
             nullptr);
      for (const auto& [left, right] : step.additions) {
        add_rows(row(left), row(right), kCount, nullptr);
      }
      wait_for(nullptr);  // before its gradient goes
    }
    expect_same_bits(rows[0].values(), tree_sum(leaves, 0, std::bit_ceil(leaves.size())),
                     std::to_string(num_leaves) + " leaves");
  }
}

}  // namespace
}  // namespace lockstep::gpu

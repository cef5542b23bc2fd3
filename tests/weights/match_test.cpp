#include "lockstep/weights/match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/weights/made_tensors.h"

namespace lockstep::weights {
namespace {

using testing::add_tensor;
using testing::expect_error;

const WantedTensors kModel{{{"fc.weight", ElementType::F32, {2}},
                            {"fc.bias", ElementType::F32, {}},
                            {"bn.num_batches_tracked", ElementType::I64, {}}},
                           {{"head.weight", "fc.weight"}}};

TensorSet file_with(const std::vector<std::pair<std::string, std::string>>& tensors) {
  TensorSet set;
  for (const auto& [name, bytes] : tensors) {
    const bool is_scalar = bytes.size() == 4;
    add_tensor(set, name, ElementType::F32,
               is_scalar ? std::vector<std::int64_t>{}
                         : std::vector<std::int64_t>{static_cast<std::int64_t>(bytes.size() / 4)},
               bytes);
  }
  return in_order(set, "");
}

void expect_refused(const TensorSet& file, const std::string& text) {
  expect_error([&] { match(kModel, file, "w.pt"); }, ErrorKind::Data, text);
}

TEST(MatchTest, GivesTheFilesTensorsInTheOrderOfTheModel) {
  auto file = file_with({{"fc.bias", "abcd"}, {"fc.weight", "12345678"}});
  add_tensor(file, "bn.num_batches_tracked", ElementType::I64, {}, "87654321");
  file = in_order(file, "");
  const auto found = match(kModel, file, "w.pt");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0], file.find("fc.weight"));
  EXPECT_EQ(found[1], file.find("fc.bias"));
  EXPECT_EQ(found[2], file.find("bn.num_batches_tracked"));
}

TEST(MatchTest, ToleratesAMissingCounterOfBatches) {
  const auto file = file_with({{"fc.bias", "abcd"}, {"fc.weight", "12345678"}});
  EXPECT_EQ(match(kModel, file, "w.pt")[2], nullptr);
}

TEST(MatchTest, IsContentWithOneOfTiedNames) {
  const auto sibling = file_with({{"fc.bias", "abcd"}, {"head.weight", "12345678"}});
  EXPECT_EQ(match(kModel, sibling, "w.pt")[0], sibling.find("head.weight"));
  const auto equal =
      file_with({{"fc.bias", "abcd"}, {"fc.weight", "12345678"}, {"head.weight", "12345678"}});
  EXPECT_EQ(match(kModel, equal, "w.pt")[0], equal.find("fc.weight"));
  auto tied = file_with({{"fc.bias", "abcd"}, {"fc.weight", "12345678"}});
  tied.ties = {{"head.weight", "fc.weight"}};
  EXPECT_EQ(match(kModel, tied, "w.pt")[0], tied.find("fc.weight"));
}

TEST(MatchTest, RefusesTiedNamesWithDifferentValues) {
  expect_refused(
      file_with({{"fc.bias", "abcd"}, {"fc.weight", "12345678"}, {"head.weight", "12345679"}}),
      "w.pt: expected the 3 tensors of the model, found 1 tied in the model but different in the "
      "file\n  tied in the model but different in the file: fc.weight and head.weight");
}

TEST(MatchTest, FillsUntiedTensorsFromATieOfTheFile) {
  const WantedTensors model{{{"a", ElementType::F32, {}}, {"b", ElementType::F32, {}}}, {}};
  auto file = file_with({{"a", "abcd"}});
  file.ties = {{"b", "a"}};
  EXPECT_EQ(match(model, file, "w"),
            (std::vector<const TensorView*>{&file.tensors[0], &file.tensors[0]}));
}

TEST(MatchTest, LeavesOutWhatDataParallelPutsBeforeEveryName) {
  auto file = file_with({{"module.fc.bias", "abcd"}, {"module.fc.weight", "12345678"}});
  file.ties = {{"module.head.weight", "module.fc.weight"}};
  EXPECT_EQ(match(kModel, file, "w.pt")[1], file.find("module.fc.bias"));
  expect_refused(file_with({{"module.fc.bias", "abcd"}, {"fc.weight", "12345678"}}),
                 "\n  missing: fc.bias (f32 [])\n  unexpected: module.fc.bias (f32 [])");
}

TEST(MatchTest, LeavesOutWhatTorchCompilePutsBeforeEveryName) {
  for (const std::string prefix :
       {"_orig_mod.", "module._orig_mod.", "_orig_mod.module.", "_orig_mod.module._orig_mod."}) {
    const auto file = file_with({{prefix + "fc.bias", "abcd"}, {prefix + "fc.weight", "12345678"}});
    EXPECT_EQ(match(kModel, file, "w.pt")[1], file.find(prefix + "fc.bias")) << prefix;
  }
  const WantedTensors model{{{"_orig_mod.a", ElementType::F32, {}}}, {}};
  const auto file = file_with({{"module._orig_mod.a", "abcd"}});
  EXPECT_EQ(match(model, file, "w")[0], &file.tensors[0]);
}

TEST(MatchTest, TakesAPossibleTieOnlyForWhatIsMissing) {
  auto file = file_with({{"fc.bias", "abcd"}, {"zz", "12345678"}});
  file.possible_ties = {{"fc.weight", "zz"}};
  const WantedTensors model{{{"fc.weight", ElementType::F32, {2}},
                             {"fc.bias", ElementType::F32, {}},
                             {"zz", ElementType::F32, {2}}},
                            {{"head.weight", "fc.weight"}}};
  EXPECT_EQ(match(model, file, "w")[0], file.find("zz"));
  // By another of its names, and not where there is one that is certain.
  file.possible_ties = {{"a note", "zz"}, {"head.weight", "zz"}};
  EXPECT_EQ(match(model, file, "w")[0], file.find("zz"));
  auto certain = file_with({{"fc.bias", "abcd"}, {"fc.weight", "87654321"}, {"zz", "12345678"}});
  certain.possible_ties = {{"head.weight", "zz"}};
  EXPECT_EQ(match(model, certain, "w")[0], certain.find("fc.weight"));
}

TEST(MatchTest, LeavesPrefixesOfPossibleTiesOut) {
  auto file = file_with({{"module.fc.bias", "abcd"}, {"module.zz", "12345678"}});
  file.possible_ties = {{"best", "module.fc.bias"}, {"module.fc.weight", "module.zz"}};
  const WantedTensors model{{{"fc.weight", ElementType::F32, {2}},
                             {"fc.bias", ElementType::F32, {}},
                             {"zz", ElementType::F32, {2}}},
                            {}};
  EXPECT_EQ(match(model, file, "w")[0], file.find("module.zz"));
}

TEST(MatchTest, PrintsNamesOfTheFileWithoutControlCharacters) {
  expect_refused(file_with({{"\x1b]0;title\x07", "abcd"}}), "unexpected: ?]0;title? (f32 [])");
  expect_refused(file_with({{std::string(1000, 'x'), "abcd"}}),
                 "unexpected: " + std::string(80, 'x') + " (f32 [])");
}

TEST(MatchTest, KeepsThePrefixThatTheModelHasItself) {
  const WantedTensors model{{{"module.a", ElementType::F32, {}}}, {}};
  const auto file = file_with({{"module.a", "abcd"}});
  EXPECT_EQ(match(model, file, "w")[0], &file.tensors[0]);
}

TEST(MatchTest, TellsEverythingAtOnce) {
  auto file = file_with({{"fc.weight", "123456789abc"}, {"other", "abcd"}});
  add_tensor(file, "fc.bias", ElementType::F16, {1}, "ab");
  add_tensor(file, "bn.num_batches_tracked", ElementType::I32, {}, "abcd");
  expect_refused(
      in_order(file, ""),
      "w.pt: expected the 3 tensors of the model, found 1 unexpected, 2 of another shape, 2 of "
      "another type\n"
      "  unexpected: other (f32 [])\n"
      "  of another shape: fc.weight (model [2], file [3]), fc.bias (model [], file [1])\n"
      "  of another type: fc.bias (model f32, file f16), bn.num_batches_tracked (model i64, file "
      "i32)");
}

TEST(MatchTest, ListsTenAndCountsTheRest) {
  std::vector<std::pair<std::string, std::string>> tensors;
  for (char c = 'a'; c < 'a' + 22; ++c) tensors.emplace_back(std::string(1, c), "abcd");
  const auto file = file_with(tensors);
  expect_refused(file,
                 "2 missing, 22 unexpected\n  missing: fc.weight (f32 [2]), fc.bias (f32 [])"
                 "\n  unexpected: a (f32 []), b (f32 []),");
  expect_refused(file, "j (f32 []) and 12 more");
}

TEST(MatchTest, HintsAtWhatMayBeMeant) {
  const WantedTensors model{{{"a", ElementType::F32, {}}}, {}};
  expect_error(
      [&] {
        match(model, file_with({{"b", "abcd"}}), "w");
      },
      ErrorKind::Data, "this may be a file of another model: no name is the same");
  TensorSet file;
  add_tensor(file, "a", ElementType::F64, {}, "12345678");
  expect_error([&] { match(model, file, "w"); }, ErrorKind::Data,
               "convert the file: types are not changed on the way");
}

}  // namespace
}  // namespace lockstep::weights

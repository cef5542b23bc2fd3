#include "lockstep/weights/digest.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include "tests/support/errors.h"
#include "tests/weights/made_tensors.h"

namespace lockstep::weights {
namespace {

using namespace std::string_literals;
using testing::add_tensor;

TensorSet two_tensors() {
  TensorSet set;
  add_tensor(set, "fc.weight", ElementType::F32, {2, 1}, "abcdefgh");
  add_tensor(set, "bias", ElementType::Bool, {}, "\x01");
  return set;
}

TEST(WeightsDigestTest, HashesTheBytesThatItsDescriptionSays) {
  const auto text =
      "\x04\0\0\0\0\0\0\0"
      "bias"
      "\x04\0\0\0\0\0\0\0"
      "bool"
      "\0\0\0\0\0\0\0\0"
      "\x01"
      "\x09\0\0\0\0\0\0\0"
      "fc.weight"
      "\x03\0\0\0\0\0\0\0"
      "f32"
      "\x02\0\0\0\0\0\0\0"
      "\x02\0\0\0\0\0\0\0"
      "\x01\0\0\0\0\0\0\0"
      "abcdefgh"s;
  EXPECT_EQ(digest_of(two_tensors()),
            fmt::format("{:016x}", XXH3_64bits(text.data(), text.size())));
}

TEST(WeightsDigestTest, StaysTheSameFromReleaseToRelease) {
  EXPECT_EQ(digest_of({}), "2d06800538d394c2");  // XXH3 of nothing
  EXPECT_EQ(digest_of(two_tensors()), "febb55ab89b4b307");
}

TEST(WeightsDigestTest, ChangesWithEveryPart) {
  const auto original = digest_of(two_tensors());
  auto set = two_tensors();
  set.tensors[0].name = "fc.weighs";
  EXPECT_NE(digest_of(set), original);
  set = two_tensors();
  set.tensors[0].type = ElementType::I32;
  EXPECT_NE(digest_of(set), original);
  set = two_tensors();
  set.tensors[0].shape = {1, 2};
  EXPECT_NE(digest_of(set), original);
  set = two_tensors();
  set.tensors[0].bytes = testing::bytes_of_text("abcdefgi");
  EXPECT_NE(digest_of(set), original);
}

TEST(WeightsDigestTest, DoesNotDependOnOrderOrOnWhichOfTiedNamesIsKept) {
  auto set = two_tensors();
  set.ties = {{"a", "bias"}};
  TensorSet other;
  add_tensor(other, "a", ElementType::Bool, {}, "\x01");
  add_tensor(other, "fc.weight", ElementType::F32, {2, 1}, "abcdefgh");
  const auto once = digest_of(other);
  other.ties = {{"bias", "a"}};
  EXPECT_EQ(digest_of(set), digest_of(other));
  EXPECT_EQ(digest_of(set), once);
}

TEST(WeightsDigestTest, WantsAscendingNames) {
  const auto set = two_tensors();
  WeightsDigest digest;
  digest.add(set.tensors[0]);
  testing::expect_error([&] { digest.add(set.tensors[1]); }, ErrorKind::Bug,
                        "weights digest: expected a name after 'fc.weight', found 'bias'");
}

}  // namespace
}  // namespace lockstep::weights

#include "lockstep/optimizer/stream_copy.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace lockstep::optimizer {
namespace {

TEST(StreamCopyTest, CopiesAnyLengthToAnyAlignmentAndNothingElse) {
  std::vector<float> from(100);
  std::iota(from.begin(), from.end(), 1.0F);
  for (std::size_t offset = 0; offset < 17; ++offset) {
    for (const std::size_t count : {0, 1, 3, 8, 15, 16, 31, 64, 83}) {
      std::vector<float> to(120, -1.0F);
      stream_copy(std::span(from).subspan(offset % 5, count), std::span(to).subspan(offset, count));
      for (std::size_t i = 0; i < to.size(); ++i) {
        const bool is_copied = i >= offset && i < offset + count;
        EXPECT_EQ(to[i], is_copied ? from[offset % 5 + i - offset] : -1.0F)
            << "offset " << offset << ", count " << count << ", at " << i;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::optimizer

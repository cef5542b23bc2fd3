#include "lockstep/base/log.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(LogTest, WritesOneLineToStandardError) {
  ::testing::internal::CaptureStderr();
  log_warning("instance 2 is late");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "lockstep: warning: instance 2 is late\n");
}

}  // namespace
}  // namespace lockstep

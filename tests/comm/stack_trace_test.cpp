#include "lockstep/comm/host/stack_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace lockstep::comm::host {
namespace {

TEST(FramesOfTest, AreTheNamedOnesOfTheThread) {
  const std::string listing =
      "PID 7 - process\n"
      "TID 7:\n"
      "#0  0x00007f0000000001     __poll\n"
      "TID 8:\n"
      "#0  0x00007f0000000002     clock_nanosleep\n"
      "#1  0x00007f0000000003\n"
      "#2  0x00007f0000000004 - 1 train(std::vector<float, std::allocator<float> > const&)\n"
      "#3  0x00007f0000000005     main\n"
      "#4  0x00007f0000000006     _start\n";
  EXPECT_EQ(frames_of(8, listing, 3),
            "    clock_nanosleep\n    train(std::vector<float, std::allocator<float> > const&)\n"
            "    main");
  EXPECT_EQ(frames_of(9, listing, 3), "");
  EXPECT_EQ(frames_of(7, "", 3), "");
}

TEST(FramesOfTest, AreCutWhereNamesAreLong) {
  const auto frames = frames_of(1, "TID 1:\n#0  0x01     " + std::string(500, 'x') + "\n", 3);
  EXPECT_LE(frames.size(), 130U);
  EXPECT_TRUE(frames.ends_with("…")) << frames;
}

TEST(StackTraceTest, IsEmptyForAProcessThatIsNotThere) {
  EXPECT_EQ(stack_trace({.process = 0x3ffffffe, .thread = 1}), "");
}

}  // namespace
}  // namespace lockstep::comm::host

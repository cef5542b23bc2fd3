#include "lockstep/checkpoint/interval.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace lockstep::checkpoint {
namespace {

using Unit = Interval::Unit;

TEST(IntervalTest, UnderstandsStepsEpochsAndTimes) {
  const auto parse = [](std::string_view text) { return parse_interval("--every", text); };
  EXPECT_EQ(parse("500"), (Interval{Unit::Steps, 500}));
  EXPECT_EQ(parse("500 steps"), (Interval{Unit::Steps, 500}));
  EXPECT_EQ(parse("1step"), (Interval{Unit::Steps, 1}));
  EXPECT_EQ(parse("2 epochs"), (Interval{Unit::Epochs, 2}));
  EXPECT_EQ(parse("1epoch"), (Interval{Unit::Epochs, 1}));
  EXPECT_EQ(parse("30s"), (Interval{Unit::Seconds, 30}));
  EXPECT_EQ(parse("0.5 s"), (Interval{Unit::Seconds, 0.5}));
  EXPECT_EQ(parse(" 10min "), (Interval{Unit::Seconds, 600}));
  EXPECT_EQ(parse("1.5h"), (Interval{Unit::Seconds, 5400}));
  EXPECT_EQ(parse("0"), Interval{});
  EXPECT_EQ(parse("never"), (Interval{Unit::Never, 0}));
}

TEST(IntervalTest, RefusesWhatCannotBeMeant) {
  for (const std::string text : {"",       " ",          "s",       "-1",      "+1",
                                 "1.5",    "1.5 epochs", "0 s",     "0epochs", "0.0",
                                 "inf",    "nan",        "infs",    "1e3",     "1 e",
                                 "5 m",    "5 seconds",  "1h30min", "1 2",     "9007199254740994",
                                 "1e400s", "1 step s",   "0x10",    "never s", "1\xff"}) {
    testing::expect_error([&] { parse_interval("--every", text); }, ErrorKind::Options,
                          "--every: expected how often, found '");
  }
  testing::expect_error([] { parse_interval("--every", "often"); }, ErrorKind::Options,
                        "found 'often'\n500 steps, 2 epochs, 30s, 10min, 1.5h or never");
}

TEST(IntervalTest, UnderstandsEveryUnit) {
  const auto expect = [](const Interval& interval, const std::string& text) {
    EXPECT_EQ(parse_interval("x", text), interval);
  };
  expect({}, "never");
  expect({Unit::Steps, 500}, "500 steps");
  expect({Unit::Steps, 1}, "1 step");
  expect({Unit::Steps, 9007199254740992}, "9007199254740992 steps");
  expect({Unit::Epochs, 1}, "1 epoch");
  expect({Unit::Epochs, 2}, "2 epochs");
  expect({Unit::Seconds, 30}, "30 s");
  expect({Unit::Seconds, 0.25}, "0.25 s");
  expect({Unit::Seconds, 90}, "90 s");
  expect({Unit::Seconds, 600}, "10 min");
  expect({Unit::Seconds, 3600}, "1 h");
  expect({Unit::Seconds, 5400}, "1.5 h");
}

}  // namespace
}  // namespace lockstep::checkpoint

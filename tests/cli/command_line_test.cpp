#include "lockstep/cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::testing {
namespace {

using ::testing::ElementsAre;
using Variables = std::map<std::string, std::string>;

TEST(CommandLineTest, ShowsACommandAsAShellReadsIt) {
  EXPECT_EQ(cli::command_text("train", {"--lr", "0.1", "--data-dir", "d e", "--summary=it's"}),
            "lockstep train --lr 0.1 --data-dir 'd e' '--summary=it'\\''s'");
}

TEST(CommandLineTest, HidesTheValuesOfVariablesButNotTheArgumentsOfTheProgram) {
  EXPECT_THAT(cli::without_values_of_env(
                  {"--env", "TOKEN=a=b", "--env=KEY=c", "-v", "x", "--env", "Y=d"}, 4),
              ElementsAre("--env", "TOKEN=...", "--env=KEY=...", "-v", "x", "--env", "Y=d"));
}

TEST(CommandLineTest, KeepsTheCommandLineOfAnOuterLauncher) {
  topology::Environment environment;
  cli::set_command_variable("lockstep run outer", environment);
  cli::set_command_variable("lockstep run inner", environment);
  EXPECT_EQ(environment.get("LOCKSTEP_COMMAND"), "lockstep run outer");
}

TEST(CommandLineTest, LeavesOutACommandLineThatTheKernelMightRefuse) {
  topology::Environment environment;
  cli::set_command_variable(std::string(200'000, 'x'), environment);
  EXPECT_EQ(environment.variables(), Variables{});
}

}  // namespace
}  // namespace lockstep::testing

#include "lockstep/launch/start/find_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launch {
namespace {

using ::testing::HasSubstr;

class FindProgramTest : public ::testing::Test {
 protected:
  std::string find(const std::string& name, const std::string& path = "") const {
    topology::Environment environment;
    environment.set("PATH", path.empty() ? folder_.path() : path);
    return find_program(name, environment);
  }

  void expect_refusal(const std::string& name, ErrorKind kind, const std::string& message) const {
    try {
      find(name);
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }

  testing::ScratchFolder folder_;
};

TEST_F(FindProgramTest, LooksAlongThePath) {
  const testing::ScratchFolder second;
  folder_.write("tool", "not executable", 0644);
  const auto tool = second.write("tool", "#!/bin/sh\n", 0755);
  EXPECT_EQ(find("tool", folder_.path() + ":" + second.path()), tool);
}

TEST_F(FindProgramTest, TakesANameWithASlashAsItIs) {
  const auto tool = folder_.write("tool", "#!/bin/sh\n", 0755);
  EXPECT_EQ(find(tool, "/nowhere"), tool);
}

TEST_F(FindProgramTest, SaysWhatIsNotFound) {
  expect_refusal("no-such-tool", ErrorKind::NotFound, "program 'no-such-tool' was not found");
  expect_refusal("/no/such/tool", ErrorKind::NotFound, "program '/no/such/tool' was not found");
  expect_refusal("", ErrorKind::NotFound, "program '' was not found");
}

TEST_F(FindProgramTest, RefusesWhatIsNotExecutable) {
  const auto file = folder_.write("data.txt", "hello", 0644);
  expect_refusal("data.txt", ErrorKind::NotExecutable, "data.txt' is not executable");
  expect_refusal(file, ErrorKind::NotExecutable, "data.txt' is not executable");
}

TEST_F(FindProgramTest, RefusesAFolder) {
  expect_refusal(folder_.path(), ErrorKind::NotExecutable, "is a folder, expected a program");
}

TEST_F(FindProgramTest, RefusesAScriptWhoseInterpreterIsMissing) {
  folder_.write("script", "#!/no/such/python3 -u\nprint()\n", 0755);
  expect_refusal("script", ErrorKind::NotExecutable, "is a script for '/no/such/python3'");
}

}  // namespace
}  // namespace lockstep::launch

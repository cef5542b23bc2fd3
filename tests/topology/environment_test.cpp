#include "lockstep/topology/environment.h"

#include <gtest/gtest.h>

namespace lockstep::topology {
namespace {

std::string value_here(const std::string& name) {
  return Environment::of_this_process().get(name).value_or("unset");
}

TEST(EnvironmentTest, GivesLibrariesWhatNobodyHasSet) {
  ASSERT_EQ(value_here("LOCKSTEP_TEST_LIBRARY"), "unset");
  set_for_libraries("LOCKSTEP_TEST_LIBRARY", "first");
  EXPECT_EQ(value_here("LOCKSTEP_TEST_LIBRARY"), "first");
  set_for_libraries("LOCKSTEP_TEST_LIBRARY", "second");
  EXPECT_EQ(value_here("LOCKSTEP_TEST_LIBRARY"), "first") << "a user's choice stays";
}

}  // namespace
}  // namespace lockstep::topology

#include "lockstep/ui/table.h"

#include <gtest/gtest.h>

namespace lockstep::ui {
namespace {

TEST(TableTest, AlignsColumnsAndLeavesNoSpaceAtLineEnds) {
  Table table({"host", "n", "cores"});
  table.add({"a-long-name", "1", "0-3"});
  table.add({"b", "22"});
  EXPECT_EQ(table.to_string(),
            "host         n   cores\n"
            "a-long-name  1   0-3\n"
            "b            22\n");
}

}  // namespace
}  // namespace lockstep::ui

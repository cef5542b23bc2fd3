#include "lockstep/ui/fitted_table.h"

#include <gtest/gtest.h>

namespace lockstep::ui {
namespace {

constexpr auto kLeft = FittedColumn::Align::Left;
constexpr auto kRight = FittedColumn::Align::Right;

FittedTable some_table() {
  FittedTable table({{"pid", 3, kRight, 0}, {"user", 1, kLeft, 0}, {"command", 2, kLeft, 6}});
  table.add({"4711", "ada", "train --epochs 5"});
  table.add({"12", "grace"});
  return table;
}

TEST(FittedTableTest, ShowsEverythingWhereThereIsRoom) {
  EXPECT_EQ(some_table().to_string(80),
            " pid  user   command\n"
            "4711  ada    train --epochs 5\n"
            "  12  grace\n");
}

TEST(FittedTableTest, MovesColumnsTogetherAndCutsWhatMayBeCut) {
  EXPECT_EQ(some_table().to_string(20),
            " pid user  command\n"
            "4711 ada   train --…\n"
            "  12 grace\n");
}

TEST(FittedTableTest, LeavesOutTheLeastImportantColumnsFirst) {
  EXPECT_EQ(some_table().to_string(16),
            " pid command\n"
            "4711 train --ep…\n"
            "  12\n");
  EXPECT_EQ(some_table().to_string(5), " pid\n4711\n  12\n");
  EXPECT_EQ(some_table().to_string(0), " pid\n4711\n  12\n");
}

TEST(FittedTableTest, CountsCharactersAndNotBytes) {
  FittedTable table({{"ä", 1, kLeft, 3}, {"b", 1, kLeft, 0}});
  table.add({"öüöü", "x"});
  EXPECT_EQ(table.to_string(80), "ä     b\nöüöü  x\n");
  EXPECT_EQ(table.to_string(5), "ä   b\nöü… x\n");
}

}  // namespace
}  // namespace lockstep::ui

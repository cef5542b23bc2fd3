#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep::ui {

/// A column of a table that has to fit a width.
struct FittedColumn {
  enum class Align { Left, Right };

  std::string heading;
  int importance = 0;  ///< the column with the least is the first to go
  Align align = Align::Left;
  std::size_t least_width = 0;  ///< its cells may be cut to that; 0: never
};

/// Columns under headings, no line wider than a terminal: cells that may be cut are cut, and where
/// that is not enough, columns go, the least important first. The most important one stays.
class FittedTable {
 public:
  explicit FittedTable(std::vector<FittedColumn> columns);

  /// A short row is filled up with empty cells.
  void add(std::vector<std::string> row);
  std::string to_string(std::size_t width) const;

 private:
  std::vector<FittedColumn> columns_;
  std::vector<std::vector<std::string>> rows_;  ///< the headings first
};

}  // namespace lockstep::ui

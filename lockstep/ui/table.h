#pragma once

#include <string>
#include <vector>

namespace lockstep::ui {

/// Columns under headings, as wide as their widest cell, two spaces between.
class Table {
 public:
  explicit Table(std::vector<std::string> headings) : rows_{std::move(headings)} {}

  /// A short row is filled up with empty cells.
  void add(std::vector<std::string> row);
  std::string to_string() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace lockstep::ui

#include "lockstep/ui/fitted_table.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "lockstep/ui/text_width.h"

namespace lockstep::ui {
namespace {

/// Between two columns: what looks good, and what there is room for.
constexpr std::size_t kWideGap = 2;
constexpr std::size_t kNarrowGap = 1;

struct ShownColumn {
  std::size_t index;
  std::size_t width;
  std::size_t least_width;
};

std::size_t total_width(const std::vector<ShownColumn>& shown, std::size_t gap) {
  return std::accumulate(shown.begin(), shown.end(), gap * (shown.size() - 1),
                         [](std::size_t sum, const ShownColumn& each) { return sum + each.width; });
}

std::size_t least_total(const std::vector<ShownColumn>& shown, std::size_t gap) {
  auto sum = gap * (shown.size() - 1);
  for (const auto& each : shown) sum += each.least_width;
  return sum;
}

void cut_columns(std::vector<ShownColumn>& shown, std::size_t gap, std::size_t width) {
  for (auto& each : shown) {
    const auto total = total_width(shown, gap);
    if (total > width) each.width -= std::min(total - width, each.width - each.least_width);
  }
}

std::string cut(std::string_view text, std::size_t width) {
  if (width_of(text) <= width) return std::string(text);
  if (width == 0) return {};
  return std::string(clip(text, width - 1)) + "…";
}

std::string padded(const std::string& text, std::size_t width, FittedColumn::Align align) {
  const auto shown = cut(text, width);
  const std::string space(width - width_of(shown), ' ');
  return align == FittedColumn::Align::Left ? shown + space : space + shown;
}

}  // namespace

FittedTable::FittedTable(std::vector<FittedColumn> columns) : columns_(std::move(columns)) {
  std::vector<std::string> headings;
  for (const auto& column : columns_) headings.push_back(column.heading);
  rows_.push_back(std::move(headings));
}

void FittedTable::add(std::vector<std::string> row) {
  row.resize(columns_.size());
  rows_.push_back(std::move(row));
}

std::string FittedTable::to_string(std::size_t width) const {
  std::vector<ShownColumn> shown;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t widest = 0;
    for (const auto& row : rows_) widest = std::max(widest, width_of(row[i]));
    const auto least = columns_[i].least_width;
    shown.push_back({i, widest, least == 0 ? widest : std::min(least, widest)});
  }
  const auto gap = total_width(shown, kWideGap) <= width ? kWideGap : kNarrowGap;
  while (shown.size() > 1 && least_total(shown, gap) > width) {
    shown.erase(std::ranges::min_element(
        shown, {}, [&](const ShownColumn& each) { return columns_[each.index].importance; }));
  }
  cut_columns(shown, gap, width);

  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (const auto& each : shown) {
      if (each.index != shown.front().index) line.append(gap, ' ');
      line += padded(row[each.index], each.width, columns_[each.index].align);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace lockstep::ui

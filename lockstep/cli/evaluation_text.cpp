#include "lockstep/cli/evaluation_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "lockstep/data/formats/bytes.h"
#include "lockstep/ui/table.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;
using train::EvaluationSummary;

constexpr std::int64_t kMostMatrixClasses = 20;
constexpr std::int64_t kMostListedClasses = 100;
constexpr std::size_t kShownClasses = 20;
constexpr std::size_t kShownConfusions = 20;
/// A matrix of more classes would make a file of many megabytes, nearly all zeros.
constexpr std::int64_t kMostJsonMatrixClasses = 2000;

std::string evaluation_line(std::string_view what, const std::string& value) {
  return fmt::format("{:<15}{}\n", what, value);
}

/// Cells below a heading.
struct Column {
  std::string heading;
  std::vector<std::string> cells{};
};

void align_right(Column& column) {
  auto width = column.heading.size();
  for (const auto& cell : column.cells) width = std::max(width, cell.size());
  const auto pad = [&](std::string& cell) { cell = fmt::format("{:>{}}", cell, width); };
  pad(column.heading);
  for (auto& cell : column.cells) pad(cell);
}

std::string table_of(const std::vector<Column>& columns) {
  std::vector<std::string> headings;
  for (const auto& column : columns) headings.push_back(column.heading);
  ui::Table table(headings);
  for (std::size_t row = 0; row < columns.front().cells.size(); ++row) {
    std::vector<std::string> cells;
    for (const auto& column : columns) cells.push_back(column.cells[row]);
    table.add(std::move(cells));
  }
  return table.to_string();
}

/// A column of numbers, one for each of some classes.
template <typename Function>
Column number_column(const std::string& heading, const std::vector<std::int64_t>& classes,
                     Function number) {
  Column column{heading};
  for (const auto one : classes) column.cells.push_back(number(one));
  align_right(column);
  return column;
}

bool has_names(const EvaluationSummary& summary) {
  return std::ssize(summary.class_names) >= summary.result.confusion.classes();
}

std::string name_of_class(const EvaluationSummary& summary, std::int64_t one) {
  return data::printable(summary.class_names[static_cast<std::size_t>(one)]);
}

/// Number and, if the dataset has names, name of each class.
std::vector<Column> class_columns(const EvaluationSummary& summary, const std::string& heading,
                                  const std::vector<std::int64_t>& classes) {
  std::vector<Column> columns{
      number_column(heading, classes, [](std::int64_t one) { return std::to_string(one); })};
  if (!has_names(summary)) return columns;
  Column names{"name"};
  for (const auto one : classes) names.cells.push_back(name_of_class(summary, one));
  columns.push_back(std::move(names));
  return columns;
}

std::string share_text(double share) {
  return std::isnan(share) ? "-" : fmt::format("{:.4f}", share);
}

std::vector<std::int64_t> all_classes(const ConfusionMatrix& confusion) {
  std::vector<std::int64_t> classes(static_cast<std::size_t>(confusion.classes()));
  std::iota(classes.begin(), classes.end(), 0);
  return classes;
}

/// The classes with the lowest F1; classes without one are left out.
std::vector<std::int64_t> worst_classes(const ConfusionMatrix& confusion) {
  auto classes = all_classes(confusion);
  std::erase_if(classes, [&](std::int64_t one) { return std::isnan(confusion.f1(one)); });
  std::ranges::stable_sort(classes, {}, [&](std::int64_t one) { return confusion.f1(one); });
  classes.resize(std::min(classes.size(), kShownClasses));
  return classes;
}

std::string class_table(const EvaluationSummary& summary) {
  const auto& confusion = summary.result.confusion;
  const bool shows_all = confusion.classes() <= kMostListedClasses;
  const auto classes = shows_all ? all_classes(confusion) : worst_classes(confusion);
  auto columns = class_columns(summary, "class", classes);
  const auto add = [&](const char* heading, auto number) {
    columns.push_back(number_column(heading, classes, number));
  };
  add("samples", [&](std::int64_t one) { return std::to_string(confusion.samples(one)); });
  add("correct", [&](std::int64_t one) { return std::to_string(confusion.correct(one)); });
  add("precision", [&](std::int64_t one) { return share_text(confusion.precision(one)); });
  add("recall", [&](std::int64_t one) { return share_text(confusion.recall(one)); });
  add("F1", [&](std::int64_t one) { return share_text(confusion.f1(one)); });
  if (shows_all) return table_of(columns);
  return fmt::format("the {} of {} classes with the lowest F1; --json FILE writes all\n{}",
                     classes.size(), confusion.classes(), table_of(columns));
}

std::string matrix_table(const EvaluationSummary& summary) {
  const auto& confusion = summary.result.confusion;
  const auto classes = all_classes(confusion);
  auto columns = class_columns(summary, "class", classes);
  for (const auto predicted : classes) {
    columns.push_back(number_column(std::to_string(predicted), classes, [&](std::int64_t truth) {
      return std::to_string(confusion.count(truth, predicted));
    }));
  }
  return "confusion matrix: a row for each class, a column for each predicted class\n" +
         table_of(columns);
}

std::string largest_confusions(const EvaluationSummary& summary) {
  const auto& confusion = summary.result.confusion;
  const auto all = confusion.confusions();
  const auto wrong = confusion.samples() - confusion.correct();
  if (all.empty()) return "no prediction is wrong\n";
  const auto shown = std::min(all.size(), kShownConfusions);
  Column samples{"samples"};
  std::vector<std::int64_t> truths;
  std::vector<std::int64_t> predictions;
  for (std::size_t i = 0; i < shown; ++i) {
    samples.cells.push_back(std::to_string(all[i].samples));
    truths.push_back(all[i].truth);
    predictions.push_back(all[i].predicted);
  }
  align_right(samples);
  std::vector<Column> columns{std::move(samples)};
  for (auto& column : class_columns(summary, "class", truths)) columns.push_back(std::move(column));
  for (auto& column : class_columns(summary, "predicted", predictions)) {
    columns.push_back(std::move(column));
  }
  return fmt::format(
      "the {} most frequent of {} confusions ({} wrong predictions); --json FILE "
      "writes all confusions\n{}",
      shown, all.size(), wrong, table_of(columns));
}

std::string weights_text(const EvaluationSummary& summary) {
  const auto digest = "digest " + summary.weights;
  if (summary.checkpoint) {
    const auto& [path, step, is_average] = *summary.checkpoint;
    return fmt::format("{}, {}after step {}, {}", path, is_average ? "average of the weights " : "",
                       step, digest);
  }
  const auto& file = summary.init_from.empty() ? summary.model : summary.init_from;
  return fmt::format("{}, {}", file, digest);
}

Json evaluated_weights(const EvaluationSummary& summary) {
  Json json{{"digest", summary.weights},
            {"init_from", summary.init_from.empty() ? Json() : Json(summary.init_from)},
            {"checkpoint", nullptr}};
  if (summary.checkpoint) {
    json["checkpoint"] = {{"path", summary.checkpoint->path},
                          {"step", summary.checkpoint->step},
                          {"average", summary.checkpoint->is_average}};
  }
  return json;
}

Json evaluated_classes(const EvaluationSummary& summary) {
  const auto& confusion = summary.result.confusion;
  auto json = Json::array();
  for (std::int64_t one = 0; one < confusion.classes(); ++one) {
    const auto name =
        has_names(summary) ? Json(summary.class_names[static_cast<std::size_t>(one)]) : Json();
    json.push_back({{"class", one},
                    {"name", name},
                    {"samples", confusion.samples(one)},
                    {"correct", confusion.correct(one)},
                    {"predictions", confusion.predictions(one)},
                    {"precision", confusion.precision(one)},
                    {"recall", confusion.recall(one)},
                    {"f1", confusion.f1(one)}});
  }
  return json;
}

Json whole_matrix(const ConfusionMatrix& confusion) {
  if (confusion.classes() > kMostJsonMatrixClasses) return nullptr;
  auto rows = Json::array();
  for (std::int64_t truth = 0; truth < confusion.classes(); ++truth) {
    auto row = Json::array();
    for (std::int64_t predicted = 0; predicted < confusion.classes(); ++predicted) {
      row.push_back(confusion.count(truth, predicted));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Json wrong_predictions(const ConfusionMatrix& confusion) {
  auto json = Json::array();
  for (const auto& [truth, predicted, samples] : confusion.confusions()) {
    json.push_back({{"class", truth}, {"predicted", predicted}, {"samples", samples}});
  }
  return json;
}

Json evaluation_run(const EvaluationSummary& summary) {
  const auto samples = static_cast<double>(summary.result.samples);
  return {{"instances", summary.instances},
          {"replicas", summary.replicas},
          {"seconds", summary.seconds},
          {"samples_per_second", summary.seconds > 0 ? samples / summary.seconds
                                                     : std::numeric_limits<double>::quiet_NaN()}};
}

}  // namespace

std::string to_text(const EvaluationSummary& summary) {
  const auto& result = summary.result;
  auto part = summary.split.empty() ? "" : fmt::format(", {} split", summary.split);
  if (summary.samples) {
    part += fmt::format(", samples {}:{}", summary.samples->first, summary.samples->end);
  }
  auto text = evaluation_line("model", summary.model) +
              evaluation_line("weights", weights_text(summary)) +
              evaluation_line("data", summary.dataset + part) +
              evaluation_line("samples", std::to_string(result.samples)) +
              evaluation_line("accuracy", fmt::format("{:.2f} % ({} correct)", result.accuracy,
                                                      result.confusion.correct())) +
              evaluation_line("loss", fmt::format("{:.6f}", result.loss));
  text += "\n" + class_table(summary) + "\n";
  return text + (result.confusion.classes() <= kMostMatrixClasses ? matrix_table(summary)
                                                                  : largest_confusions(summary));
}

std::string to_json(const EvaluationSummary& summary) {
  const auto& result = summary.result;
  Json json{{"model", summary.model},
            {"weights", evaluated_weights(summary)},
            {"dataset", summary.dataset},
            {"split", summary.split.empty() ? Json() : Json(summary.split)},
            {"sample_range",
             summary.samples ? Json{summary.samples->first, summary.samples->end} : Json()},
            {"batch_size", summary.batch_size},
            {"precision", summary.precision},
            {"threads_per_device", summary.threads_per_device},
            {"samples", result.samples},
            {"correct", result.confusion.correct()},
            {"accuracy", result.accuracy},
            {"loss", result.loss},
            {"classes", evaluated_classes(summary)},
            {"confusion_matrix", whole_matrix(result.confusion)},
            {"confusions", wrong_predictions(result.confusion)},
            {"run", evaluation_run(summary)}};
  // A path may hold any bytes.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::cli

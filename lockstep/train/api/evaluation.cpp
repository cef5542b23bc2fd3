#include "lockstep/train/api/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

std::size_t checked_number_of_classes(std::int64_t classes) {
  if (classes >= 0) return static_cast<std::size_t>(classes);
  throw Error(ErrorKind::Options,
              fmt::format("ConfusionMatrix: expected 0 classes or more, found {}", classes));
}

double share(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

ConfusionMatrix::ConfusionMatrix(std::int64_t classes)
    : truths_(checked_number_of_classes(classes)),
      predictions_(checked_number_of_classes(classes)) {}

std::size_t ConfusionMatrix::checked(std::int64_t of_class) const {
  if (of_class >= 0 && of_class < classes()) return static_cast<std::size_t>(of_class);
  throw Error(ErrorKind::Options,
              fmt::format("ConfusionMatrix: expected a class of 0 to {}, found {}", classes() - 1,
                          of_class));
}

void ConfusionMatrix::add(std::int64_t truth, std::int64_t predicted, std::int64_t samples) {
  const auto row = checked(truth);
  const auto column = checked(predicted);
  if (samples < 0) {
    throw Error(ErrorKind::Options,
                fmt::format("ConfusionMatrix: expected 0 samples or more, found {}", samples));
  }
  if (samples == 0) return;
  counts_[{truth, predicted}] += samples;
  truths_[row] += samples;
  predictions_[column] += samples;
  samples_ += samples;
  if (truth == predicted) correct_ += samples;
}

std::int64_t ConfusionMatrix::count(std::int64_t truth, std::int64_t predicted) const {
  checked(truth);
  checked(predicted);
  const auto found = counts_.find({truth, predicted});
  return found == counts_.end() ? 0 : found->second;
}

double ConfusionMatrix::precision(std::int64_t of_class) const {
  return share(correct(of_class), predictions(of_class));
}

double ConfusionMatrix::recall(std::int64_t of_class) const {
  return share(correct(of_class), samples(of_class));
}

double ConfusionMatrix::f1(std::int64_t of_class) const {
  return share(2 * correct(of_class), samples(of_class) + predictions(of_class));
}

std::vector<ConfusionMatrix::Cell> ConfusionMatrix::confusions() const {
  std::vector<Cell> cells;
  for (const auto& [classes, samples] : counts_) {
    const auto [truth, predicted] = classes;
    if (truth != predicted) cells.push_back({truth, predicted, samples});
  }
  std::ranges::sort(cells, [](const Cell& a, const Cell& b) {
    return std::tuple(-a.samples, a.truth, a.predicted) <
           std::tuple(-b.samples, b.truth, b.predicted);
  });
  return cells;
}

}  // namespace lockstep

#include "lockstep/data/sets/subset.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

class Subset final : public Dataset {
 public:
  Subset(DatasetPtr dataset, std::vector<std::int64_t> indices)
      : Dataset(dataset->fields(), dataset->class_names()),
        dataset_(std::move(dataset)),
        indices_(std::move(indices)) {}

  std::int64_t size() const override { return std::ssize(indices_); }
  void sample(std::int64_t index, Sample& sample) const override {
    dataset_->sample(original(index), sample);
  }
  std::string source_of(std::int64_t index) const override {
    return dataset_->source_of(original(index));
  }

 private:
  std::int64_t original(std::int64_t index) const {
    return indices_[static_cast<std::size_t>(index)];
  }

  DatasetPtr dataset_;
  std::vector<std::int64_t> indices_;
};

}  // namespace

DatasetPtr subset(DatasetPtr dataset, std::vector<std::int64_t> indices) {
  const auto size = dataset->size();
  for (const auto index : indices) {
    if (index >= 0 && index < size) continue;
    throw Error(ErrorKind::Options, fmt::format("data: subset: expected indices from 0 to {}, "
                                                "found {}",
                                                size - 1, index));
  }
  return std::make_shared<Subset>(std::move(dataset), std::move(indices));
}

DatasetPtr subset(DatasetPtr dataset, const IndexRange& range) {
  const auto size = dataset->size();
  if (range.first < 0 || range.first > range.end || range.end > size) {
    throw Error(ErrorKind::Options,
                fmt::format("data: subset: expected a range within 0:{}, found {}:{}", size,
                            range.first, range.end),
                fmt::format("the dataset has {} samples", size));
  }
  std::vector<std::int64_t> indices(static_cast<std::size_t>(range.end - range.first));
  std::iota(indices.begin(), indices.end(), range.first);
  return std::make_shared<Subset>(std::move(dataset), std::move(indices));
}

}  // namespace lockstep::data

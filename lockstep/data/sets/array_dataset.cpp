#include "lockstep/data/sets/array_dataset.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

Error misfit(const Field& field, std::string_view expected, std::string_view found) {
  return Error(ErrorKind::Options, fmt::format("data: array of field '{}': expected {}, found {}",
                                               field.name, expected, found));
}

}  // namespace

ArrayDataset::ArrayDataset(std::vector<Field> fields, std::vector<Array> arrays,
                           std::vector<std::string> class_names, SourceOf source_of)
    : Dataset(std::move(fields), std::move(class_names)),
      arrays_(std::move(arrays)),
      source_of_(std::move(source_of)) {
  check_fields("data: arrays", this->fields());
  if (arrays_.size() != this->fields().size()) {
    throw Error(ErrorKind::Options, fmt::format("data: expected an array for each of {} fields, "
                                                "found {}",
                                                this->fields().size(), arrays_.size()));
  }
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const auto count = count_samples(i);
    if (i == 0) size_ = count;
    if (count != size_) {
      throw misfit(this->fields()[i],
                   fmt::format("{} samples as in '{}'", size_, this->fields()[0].name),
                   fmt::format("{}", count));
    }
    check_lengths(i);
  }
}

void ArrayDataset::sample(std::int64_t index, Sample& sample) const {
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const auto offset = static_cast<std::size_t>(index) * bytes_of(fields()[i]);
    const auto* const data = arrays_[i].bytes.data() + offset;
    if (fields()[i].kind == FieldKind::Varying) {
      sample.refer_varying(i, data, arrays_[i].lengths[static_cast<std::size_t>(index)]);
    } else {
      sample.refer(i, data);
    }
  }
}

std::string ArrayDataset::source_of(std::int64_t index) const {
  return source_of_ ? source_of_(index) : std::string();
}

std::int64_t ArrayDataset::count_samples(std::size_t field) const {
  const auto& declared = fields()[field];
  const auto& array = arrays_[field];
  if (declared.kind == FieldKind::AnySizeImage) {
    throw misfit(declared, "a fixed or varying field", "pictures of any size");
  }
  if (array.type != declared.type) {
    throw misfit(declared, lockstep::name_of(declared.type), lockstep::name_of(array.type));
  }
  const auto sample_bytes = bytes_of(declared);
  if (array.bytes.size() % sample_bytes != 0) {
    throw misfit(declared, fmt::format("a multiple of {} bytes", sample_bytes),
                 fmt::format("{}", array.bytes.size()));
  }
  return static_cast<std::int64_t>(array.bytes.size() / sample_bytes);
}

void ArrayDataset::check_lengths(std::size_t field) const {
  const auto& declared = fields()[field];
  const auto& lengths = arrays_[field].lengths;
  const auto wanted =
      declared.kind == FieldKind::Varying ? static_cast<std::size_t>(size_) : std::size_t{0};
  if (lengths.size() != wanted) {
    throw misfit(declared, fmt::format("{} lengths", wanted), fmt::format("{}", lengths.size()));
  }
  for (const auto length : lengths) {
    if (length < 0 || length > declared.shape[0]) {
      throw misfit(declared, fmt::format("lengths of 0 to {}", declared.shape[0]),
                   fmt::format("{}", length));
    }
  }
}

}  // namespace lockstep::data

#include "lockstep/weights/digest.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <bit>
#include <new>

#include "lockstep/base/error.h"

namespace lockstep::weights {

static_assert(std::endian::native == std::endian::little);

struct WeightsDigest::State {
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> hash{XXH3_createState()};
};

WeightsDigest::WeightsDigest() : state_(std::make_unique<State>()) {
  if (!state_->hash) throw std::bad_alloc();
  XXH3_64bits_reset(state_->hash.get());
}

WeightsDigest::~WeightsDigest() = default;

void WeightsDigest::add(const TensorView& tensor) {
  if (!is_empty_ && tensor.name <= last_name_) {
    throw Error(ErrorKind::Bug, fmt::format("weights digest: expected a name after '{}', found "
                                            "'{}'",
                                            last_name_, tensor.name));
  }
  is_empty_ = false;
  last_name_ = tensor.name;
  add_text(tensor.name);
  add_text(name_of(tensor.type));
  add_number(tensor.shape.size());
  for (const auto extent : tensor.shape) add_number(static_cast<std::uint64_t>(extent));
  XXH3_64bits_update(state_->hash.get(), tensor.bytes.data(), tensor.bytes.size());
}

std::string WeightsDigest::hex() const {
  return fmt::format("{:016x}", XXH3_64bits_digest(state_->hash.get()));
}

void WeightsDigest::add_number(std::uint64_t number) {
  XXH3_64bits_update(state_->hash.get(), &number, sizeof number);
}

void WeightsDigest::add_text(std::string_view text) {
  add_number(text.size());
  XXH3_64bits_update(state_->hash.get(), text.data(), text.size());
}

std::string digest_of(const TensorSet& set) {
  const auto sorted = in_order(set, "weights digest");
  WeightsDigest digest;
  for (const auto& tensor : sorted.tensors) digest.add(tensor);
  return digest.hex();
}

std::map<std::string, std::string> tensor_digests(const TensorSet& set) {
  const auto sorted = in_order(set, "weights digest");
  std::map<std::string, std::string> digests;
  for (const auto& tensor : sorted.tensors) {
    WeightsDigest digest;
    digest.add(tensor);
    digests.emplace(tensor.name, digest.hex());
  }
  return digests;
}

}  // namespace lockstep::weights

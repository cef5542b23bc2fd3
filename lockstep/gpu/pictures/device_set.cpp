#include "lockstep/gpu/pictures/device_set.h"

#include <algorithm>
#include <cstring>

namespace lockstep::gpu {
namespace {

constexpr std::int64_t kPieceBytes = 16 << 20;

/// A field's values for samples [first, first + count), each at a multiple of the stride.
void read_piece(const data::Dataset& set, std::size_t field, const FieldPlace& place,
                std::int64_t first, std::int64_t count, std::byte* out) {
  data::Sample sample(set.fields());
  std::memset(out, 0, static_cast<std::size_t>(count * place.stride));
  for (std::int64_t i = 0; i < count; ++i) {
    sample.clear();
    set.sample(first + i, sample);
    sample.check_complete();
    std::memcpy(out + i * place.stride, sample.data(field), static_cast<std::size_t>(place.bytes));
  }
}

}  // namespace

DeviceSet::DeviceSet(const data::Dataset& set, std::int64_t most_bytes)
    : fields_(set.fields()),
      layout_(lay_out_set(fields_, set.size(), most_bytes)),
      memory_(static_cast<std::size_t>(layout_.bytes)) {
  for (std::size_t field = 0; field < fields_.size(); ++field) copy_field(set, field);
}

void DeviceSet::copy_field(const data::Dataset& set, std::size_t field) {
  const auto& place = layout_.fields[field];
  const auto at_a_time =
      std::clamp<std::int64_t>(kPieceBytes / place.stride, 1, std::max<std::int64_t>(samples(), 1));
  const PinnedMemory piece(static_cast<std::size_t>(at_a_time * place.stride));
  for (std::int64_t first = 0; first < samples(); first += at_a_time) {
    const auto count = std::min(at_a_time, samples() - first);
    read_piece(set, field, place, first, count, piece.data());
    copy_to_device(piece.data(), memory_.data() + place.offset + first * place.stride,
                   static_cast<std::size_t>(count * place.stride), nullptr);
    wait_for(nullptr);
  }
}

void DeviceSet::gather(std::size_t field, const std::int64_t* samples, std::int64_t count,
                       void* out, Stream stream) const {
  const auto& place = layout_.fields[field];
  gather_field({.values = values(field),
                .bytes = place.bytes,
                .stride = place.stride,
                .samples = samples,
                .count = count,
                .out = out},
               stream);
}

}  // namespace lockstep::gpu

#include "lockstep/nn/autocast.h"

#include <ATen/autocast_mode.h>

#include "lockstep/nn/scalar_types.h"

namespace lockstep::nn {

/// Nothing is kept from one operation to the next: a step that is captured would find what another
/// one has left.
Autocast::Autocast(DataType compute) : is_on_(compute != DataType::F32) {
  if (!is_on_) return;
  at::autocast::set_autocast_enabled(at::kCUDA, true);
  at::autocast::set_autocast_dtype(at::kCUDA, scalar_type_of(compute));
  at::autocast::set_autocast_cache_enabled(false);
}

Autocast::~Autocast() {
  if (!is_on_) return;
  at::autocast::set_autocast_enabled(at::kCUDA, false);
  at::autocast::set_autocast_cache_enabled(true);
}

}  // namespace lockstep::nn

#pragma once

#include "lockstep/base/data_type.h"

namespace lockstep::nn {

/// While it lives, what the calling thread computes on a GPU is computed in 16 bits where libtorch
/// holds that for safe: convolutions and products of matrices, not losses and norms. F32 changes
/// nothing. Weights that are in 16 bits already are taken as they are.
class Autocast {
 public:
  explicit Autocast(DataType compute);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool is_on_;
};

}  // namespace lockstep::nn

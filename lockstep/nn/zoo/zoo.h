#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/nn/network.h"
#include "lockstep/nn/zoo/quick_networks.h"

namespace lockstep::nn {

/// A network of the zoo by its name, and what it is made for.
struct NetworkRequest {
  std::string name;
  std::int64_t classes = 10;
  PictureSize size;
  ZooOptions options;
};

/// All names, as `--model` takes them.
LOCKSTEP_API std::vector<std::string> network_names();

/// Errors: `Options` for a name that is not there, classes or channels below 1, and pictures that
/// the network cannot take.
LOCKSTEP_API std::shared_ptr<Network> make_network(const NetworkRequest& request);

}  // namespace lockstep::nn

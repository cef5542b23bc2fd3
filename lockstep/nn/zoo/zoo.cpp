#include "lockstep/nn/zoo/zoo.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "lockstep/base/error.h"

namespace lockstep::nn {
namespace {

struct Entry {
  const char* name;
  std::function<std::shared_ptr<Network>(const NetworkRequest&)> make;
};

/// For networks that are the same for pictures of all sizes.
template <std::shared_ptr<Network> (*make)(std::int64_t, const ZooOptions&)>
std::shared_ptr<Network> of_any_size(const NetworkRequest& request) {
  return make(request.classes, request.options);
}

std::shared_ptr<Network> make_mlp(const NetworkRequest& request) {
  return mlp(request.classes, request.size, request.options);
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all{
      {"mlp", make_mlp},
      {"convnet", of_any_size<convnet>},
      {"resnet20", of_any_size<resnet20>},
      {"resnet32", of_any_size<resnet32>},
      {"resnet44", of_any_size<resnet44>},
      {"resnet56", of_any_size<resnet56>},
      {"resnet110", of_any_size<resnet110>},
      {"resnet18", of_any_size<resnet18>},
      {"resnet34", of_any_size<resnet34>},
      {"resnet50", of_any_size<resnet50>},
      {"resnet101", of_any_size<resnet101>},
      {"resnet152", of_any_size<resnet152>},
  };
  return all;
}

void check_positive(const char* what, std::int64_t value) {
  if (value > 0) return;
  throw Error(ErrorKind::Options,
              fmt::format("model: expected 1 or more {}, found {}", what, value));
}

}  // namespace

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const auto& entry : entries()) names.emplace_back(entry.name);
  return names;
}

std::shared_ptr<Network> make_network(const NetworkRequest& request) {
  const auto& all = entries();
  const auto entry = std::find_if(all.begin(), all.end(),
                                  [&](const Entry& each) { return each.name == request.name; });
  if (entry == all.end()) {
    throw Error(ErrorKind::Options, fmt::format("model: there is no '{}'", request.name),
                fmt::format("one of {}, or a TorchScript file that ends in .pt",
                            fmt::join(network_names(), ", ")));
  }
  check_positive("classes", request.classes);
  check_positive("channels", request.options.channels);
  check_positive("pixels of height", request.size.height);
  check_positive("pixels of width", request.size.width);
  auto net = entry->make(request);
  net->check_picture({request.options.channels, request.size.height, request.size.width});
  return net;
}

}  // namespace lockstep::nn

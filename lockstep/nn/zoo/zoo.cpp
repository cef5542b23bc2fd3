#include "lockstep/nn/zoo/zoo.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "lockstep/base/error.h"
#include "lockstep/nn/zoo/network_names.h"

namespace lockstep::nn {
namespace {

struct Entry {
  std::string_view name;
  std::shared_ptr<Network> (*make)(const NetworkRequest&);
};

/// For networks that are the same for pictures of all sizes.
template <std::shared_ptr<Network> (*make)(std::int64_t, const ZooOptions&)>
std::shared_ptr<Network> of_any_size(const NetworkRequest& request) {
  return make(request.classes, request.options);
}

std::shared_ptr<Network> make_mlp(const NetworkRequest& request) {
  return mlp(request.classes, request.size, request.options);
}

constexpr Entry kEntries[] = {
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
static_assert(std::ranges::equal(kEntries, kNetworkNames, {}, &Entry::name));

void check_positive(const char* what, std::int64_t value) {
  if (value > 0) return;
  throw Error(ErrorKind::Options,
              fmt::format("model: expected 1 or more {}, found {}", what, value));
}

}  // namespace

std::vector<std::string> network_names() {
  return {kNetworkNames.begin(), kNetworkNames.end()};
}

std::shared_ptr<Network> make_network(const NetworkRequest& request) {
  const auto* const entry = std::ranges::find(kEntries, request.name, &Entry::name);
  if (entry == std::end(kEntries)) {
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

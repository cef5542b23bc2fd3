#include "lockstep/nn/zoo/pooled_head.h"

#include <torch/types.h>

#include "lockstep/nn/layers/convolution.h"

namespace lockstep::nn {

void add_pooled_head(Network& net, std::int64_t in, std::int64_t classes) {
  auto fc = net.register_module("fc", Linear(in, classes));
  net.add_block({"head", {"fc"}, [fc](const at::Tensor& input) {
                   return fc->forward(at::adaptive_avg_pool2d(input, {1, 1}).flatten(1));
                 }});
}

}  // namespace lockstep::nn

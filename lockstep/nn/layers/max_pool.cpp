#include "lockstep/nn/layers/max_pool.h"

#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include "lockstep/gpu/layers/max_pool.h"
#include "lockstep/nn/gpu_stream.h"
#include "lockstep/nn/scalar_types.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kLargestWindow = 16;

gpu::PoolShape shape_of(const at::Tensor& x, const MaxPoolOptions& options) {
  return {.type = data_type_of(x.scalar_type()),
          .samples = x.size(0),
          .height = x.size(2),
          .width = x.size(3),
          .channels = x.size(1),
          .kernel = options.kernel,
          .stride = options.stride,
          .padding = options.padding};
}

at::Tensor channels_last(const at::Tensor& tensor) {
  return tensor.contiguous(at::MemoryFormat::ChannelsLast);
}

class MaxPool : public torch::autograd::Function<MaxPool> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, std::int64_t kernel,
                            std::int64_t stride, std::int64_t padding) {
    const c10::DeviceGuard guard(x.device());
    const auto shape = shape_of(x, {kernel, stride, padding});
    const auto rows = channels_last(x);
    auto y = at::empty({shape.samples, shape.channels, shape.out_height(), shape.out_width()},
                       x.options().memory_format(at::MemoryFormat::ChannelsLast));
    const auto places = at::empty({y.numel()}, x.options().dtype(at::kByte));
    gpu::max_pool_forward({.shape = shape,
                           .x = rows.data_ptr(),
                           .y = y.data_ptr(),
                           .places = places.data_ptr<std::uint8_t>()},
                          gpu_stream_of(x));
    context->save_for_backward({places});
    context->saved_data["sizes"] = x.sizes().vec();
    context->saved_data["window"] = std::vector<std::int64_t>{kernel, stride, padding};
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& arriving) {
    const auto dy = channels_last(arriving.front());
    const c10::DeviceGuard guard(dy.device());
    const auto window = context->saved_data["window"].toIntVector();
    auto dx = at::empty(context->saved_data["sizes"].toIntVector(),
                        dy.options().memory_format(at::MemoryFormat::ChannelsLast));
    gpu::max_pool_backward(
        {.shape = shape_of(dx, {window[0], window[1], window[2]}),
         .dy = dy.data_ptr(),
         .places = context->get_saved_variables().front().data_ptr<std::uint8_t>(),
         .dx = dx.data_ptr()},
        gpu_stream_of(dy));
    return {dx, {}, {}, {}};
  }
};

bool has_kernel_for(const at::Tensor& x, const MaxPoolOptions& options) {
  const auto type = x.scalar_type();
  return x.is_cuda() && x.dim() == 4 && x.layout() == at::kStrided &&
         options.kernel <= kLargestWindow &&
         (type == at::kFloat || type == at::kHalf || type == at::kBFloat16);
}

}  // namespace

at::Tensor max_pool(const at::Tensor& x, const MaxPoolOptions& options) {
  if (has_kernel_for(x, options)) {
    return MaxPool::apply(x, options.kernel, options.stride, options.padding);
  }
  return at::max_pool2d(x, options.kernel, options.stride, options.padding);
}

}  // namespace lockstep::nn

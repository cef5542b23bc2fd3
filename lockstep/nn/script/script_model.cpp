#include "lockstep/nn/script/script_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/nn/random/random_scope.h"
#include "lockstep/nn/script/trainable_graph.h"

namespace lockstep::nn {
namespace {

/// The first line of what libtorch says, which then goes on for a page.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// The last line that says something: there TorchScript puts the cause.
std::string last_line(const std::string& text) {
  const auto end = text.find_last_not_of(" \n");
  if (end == std::string::npos) return text;
  const auto begin = text.find_last_of('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1, end - begin);
}

class ScriptModel : public Model {
 public:
  explicit ScriptModel(torch::jit::Module module) : module_(std::move(module)) {}

  std::vector<std::string> block_names() const override { return {"model"}; }

  at::Tensor run_block(std::size_t /*block*/, const at::Tensor& input) override {
    if (auto* const scope = RandomScope::current()) scope->enter_block(0);
    // It belongs to the thread, so it is set anew for each run.
    const torch::jit::GraphOptimizerEnabledGuard as_written(false);
    try {
      return module_.forward({input}).toTensor();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw Error(
          ErrorKind::Options,
          fmt::format("model: the TorchScript module cannot compute an input of shape [{}]: "
                      "{}",
                      fmt::join(input.sizes().vec(), ", "), last_line(error.what())),
          "a traced module is bound to the shapes that it was traced with: use "
          "torch.jit.script");
    }
  }

  std::vector<NamedTensor> tensors() const override {
    std::vector<NamedTensor> tensors;
    for (const auto& entry : module_.named_parameters(/*recurse=*/true)) {
      tensors.push_back({entry.name, entry.value, TensorRole::Parameter});
    }
    for (const auto& entry : module_.named_buffers(/*recurse=*/true)) {
      tensors.push_back({entry.name, entry.value, TensorRole::Buffer});
    }
    return tensors;
  }

  void set_mode(Mode mode) override { module_.train(mode == Mode::Train); }

  std::unique_ptr<Model> clone() const override {
    // Else the copies would be results of a computation, whose gradients go to the originals.
    const torch::NoGradGuard no_grad;
    auto copy = std::make_unique<ScriptModel>(module_.deepcopy());
    copy_and_tie(tensors(), copy->tensors());
    return copy;
  }

 private:
  torch::jit::Module module_;
};

torch::jit::Module read_script(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) {
    throw Error(ErrorKind::Io, fmt::format("model: there is no file '{}'", path));
  }
  try {
    return torch::jit::load(path, at::kCPU);
  } catch (const std::exception& error) {
    throw Error(ErrorKind::Data,
                fmt::format("model {}: expected a TorchScript module, found another file: {}", path,
                            first_line(error.what())),
                "save it with torch.jit.script(model).save(path); weights alone go to --init-from");
  }
}

void check_forward(const torch::jit::Module& module, const std::string& where) {
  const auto forward = module.find_method("forward");
  if (!forward) {
    throw Error(ErrorKind::Data, fmt::format("{}: it has no method forward", where));
  }
  const auto& arguments = forward->function().getSchema().arguments();
  int needed = 0;
  for (std::size_t i = 1; i < arguments.size(); ++i) needed += arguments[i].default_value() ? 0 : 1;
  if (arguments.size() < 2 || needed > 1) {
    throw Error(ErrorKind::Data,
                fmt::format("{}: expected forward to take one input, found {}", where, needed));
  }
}

void check_parameters(const torch::jit::Module& module, const std::string& where) {
  int learned = 0;
  for (const auto& parameter : module.named_parameters(/*recurse=*/true)) {
    if (parameter.value.scalar_type() != at::kFloat) {
      throw Error(ErrorKind::Data,
                  fmt::format("{}: expected parameters of 32-bit floats, found {} in '{}'", where,
                              c10::toString(parameter.value.scalar_type()), parameter.name),
                  "save it after model.float(); --precision decides what is computed in 16 bits");
    }
    learned += parameter.value.requires_grad() ? 1 : 0;
  }
  if (learned == 0) {
    throw Error(ErrorKind::Data,
                fmt::format("{}: it has no parameters that could be trained", where),
                "save it before torch.jit.freeze, optimize_for_inference or quantization");
  }
}

}  // namespace

std::unique_ptr<Model> load_script(const std::string& path) {
  auto module = read_script(path);
  const auto where = "model " + path;
  check_forward(module, where);
  check_parameters(module, where);
  make_graph_trainable(module, where);
  auto model = std::make_unique<ScriptModel>(std::move(module));
  model->set_mode(Mode::Train);
  return model;
}

}  // namespace lockstep::nn

#include "lockstep/nn/script/script_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/nn/random/random_scope.h"
#include "lockstep/nn/random/routed_operations.h"
#include "lockstep/nn/script/trainable_graph.h"

namespace lockstep::nn {
namespace {

/// The first line that says something: libtorch goes on for a page.
std::string first_line(const std::string& text) {
  const auto begin = text.find_first_not_of(" \n");
  if (begin == std::string::npos) return text;
  return text.substr(begin, text.find('\n', begin) - begin);
}

/// The last line that says something: there TorchScript puts the cause.
std::string last_line(const std::string& text) {
  const auto end = text.find_last_not_of(" \n");
  if (end == std::string::npos) return text;
  const auto begin = text.find_last_of('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1, end - begin);
}

/// Buffers as they are, until they are put back: a traced batch norm counts its batches also where
/// it evaluates.
class KeptBuffers {
 public:
  explicit KeptBuffers(const std::vector<NamedTensor>& tensors) {
    for (const auto& named : tensors) {
      if (named.role == TensorRole::Buffer) kept_.emplace_back(named.tensor, named.tensor.clone());
    }
  }
  void put_back() const {
    const torch::NoGradGuard no_grad;
    for (const auto& [buffer, value] : kept_) buffer.copy_(value);
  }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> kept_;
};

/// The parameters and buffers of one module, without its children's. libtorch's own list leaves out
/// buffers that may be None.
void add_tensors(const torch::jit::Module& module, const std::string& prefix,
                 std::vector<NamedTensor>& tensors) {
  const auto type = module.type();
  for (std::size_t i = 0; i < type->numAttributes(); ++i) {
    const bool is_parameter = type->is_parameter(i);
    if (!is_parameter && !type->is_buffer(i)) continue;
    const auto value = module._ivalue()->getSlot(i);
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    tensors.push_back({prefix + type->getAttributeName(i), value.toTensor(),
                       is_parameter ? TensorRole::Parameter : TensorRole::Buffer});
  }
}

std::vector<NamedTensor> tensors_of(const torch::jit::Module& module) {
  std::vector<NamedTensor> tensors;
  for (const auto& entry : module.named_modules()) {
    add_tensors(entry.value, entry.name.empty() ? "" : entry.name + ".", tensors);
  }
  return tensors;
}

class ScriptModel : public Model {
 public:
  ScriptModel(torch::jit::Module module, Origin origin)
      : module_(std::move(module)), origin_(origin) {}

  std::vector<std::string> block_names() const override { return {"model"}; }

  at::Tensor run_block(std::size_t /*block*/, at::Tensor input) override {
    if (auto* const scope = RandomScope::current()) scope->enter_block(0);
    if (origin_ == Origin::Scripted || mode_ == Mode::Train) return run(input);
    const KeptBuffers buffers(tensors());
    auto output = run(input);
    buffers.put_back();
    return output;
  }

  std::vector<NamedTensor> tensors() const override { return tensors_of(module_); }
  std::vector<NamedTensor> block_tensors(std::size_t /*block*/) const override { return tensors(); }

  /// What its layers are is not known.
  bool set_grouping(const Grouping& grouping) override { return grouping.groups == 1; }
  void set_mode(Mode mode) override {
    mode_ = mode;
    module_.train(mode == Mode::Train);
  }

  std::unique_ptr<Model> clone() const override {
    // Else the copies would be results of a computation, whose gradients go to the originals.
    const torch::NoGradGuard no_grad;
    auto copy = std::make_unique<ScriptModel>(module_.deepcopy(), origin_);
    copy_and_tie(tensors(), copy->tensors());
    copy->set_mode(mode_);
    return copy;
  }

 private:
  at::Tensor run(const at::Tensor& input) {
    // It belongs to the thread, so it is set anew for each run.
    const torch::jit::GraphOptimizerEnabledGuard as_written(false);
    try {
      return module_({input}).toTensor();
    } catch (const std::exception& error) {
      // TorchScript throws another exception in place of ours.
      if (const auto refusal = take_refusal()) throw *refusal;
      throw Error(
          ErrorKind::Options,
          fmt::format("model: the TorchScript module cannot compute an input of shape [{}]: "
                      "{}",
                      fmt::join(input.sizes().vec(), ", "), last_line(error.what())),
          "a traced module is bound to the shapes that it was traced with: use "
          "torch.jit.script");
    }
  }

  torch::jit::Module module_;
  Origin origin_;
  Mode mode_ = Mode::Train;
};

/// What begins otherwise is no zip file; libtorch would take some of it for a format that it reads
/// without checking.
bool is_zip(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 4> begin{};
  file.read(begin.data(), begin.size());
  return std::string_view(begin.data(), begin.size()) == "PK\x03\x04";
}

torch::jit::Module read_script(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) {
    throw Error(ErrorKind::Io, fmt::format("model: there is no file '{}'", path));
  }
  std::string reason = "it is no zip file";
  if (is_zip(path)) {
    try {
      return torch::jit::load(path, at::kCPU);
    } catch (const std::exception& error) {
      reason = first_line(error.what());
    }
  }
  throw Error(
      ErrorKind::Data,
      fmt::format("model {}: expected a TorchScript module that can be loaded: {}", path, reason),
      "save it with torch.jit.script(model).save(path); weights alone go to --init-from");
}

/// Gives each tensor that is cut from a larger one memory of its own: a copy of the module would
/// take two cuts of one memory for the same tensor.
void take_apart(const torch::jit::Module& module) {
  const torch::NoGradGuard no_grad;
  for (const auto& slot : slots_of(tensors_of(module))) {
    const auto whole = slot.tensor().clone();
    for (auto tensor : slot.tensors) tensor.set_data(whole);
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
  for (const auto& parameter : tensors_of(module)) {
    if (parameter.role == TensorRole::Buffer) continue;
    if (parameter.tensor.scalar_type() != at::kFloat) {
      throw Error(ErrorKind::Data,
                  fmt::format("{}: expected parameters of 32-bit floats, found {} in '{}'", where,
                              c10::toString(parameter.tensor.scalar_type()), parameter.name),
                  "save it after model.float(); --precision decides what is computed in 16 bits");
    }
    learned += parameter.tensor.requires_grad() ? 1 : 0;
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
  const auto origin = make_graph_trainable(module, where);
  take_apart(module);
  auto model = std::make_unique<ScriptModel>(std::move(module), origin);
  model->set_mode(Mode::Train);
  return model;
}

}  // namespace lockstep::nn

#include "lockstep/nn/random/routed_operations.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/format.h>
#include <torch/library.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/nn/random/random_scope.h"

namespace lockstep::nn {
namespace {

constexpr auto kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

using Stack = torch::jit::Stack;

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

bool is_generator(const c10::Argument& argument) {
  return argument.type()->str().find("Generator") != std::string::npos;
}

/// The value of the first argument of which `is_wanted` holds; null where there is none.
template <typename Predicate>
c10::IValue* find_value(const c10::OperatorHandle& operation, Stack& stack,
                        const Predicate& is_wanted) {
  const auto& arguments = operation.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (is_wanted(arguments[i])) return &torch::jit::peek(stack, i, arguments.size());
  }
  return nullptr;
}

bool takes_generator(const c10::OperatorHandle& operation) {
  const auto& arguments = operation.schema().arguments();
  return std::any_of(arguments.begin(), arguments.end(), is_generator);
}

/// Where an operation will run, as far as its arguments tell.
c10::Device device_of(const c10::OperatorHandle& operation, const Stack& stack) {
  const auto count = operation.schema().arguments().size();
  for (auto argument = stack.end() - static_cast<std::ptrdiff_t>(count); argument != stack.end();
       ++argument) {
    if (argument->isTensor() && argument->toTensor().defined())
      return argument->toTensor().device();
    if (argument->isDevice()) return argument->toDevice();
  }
  return c10::kCPU;
}

thread_local std::optional<Error> last_refusal;

[[noreturn]] void refuse(const c10::OperatorHandle& operation, const std::string& why) {
  last_refusal.emplace(ErrorKind::Unavailable,
                       fmt::format("random operation {}: {}, so replicas would race for one "
                                   "generator of the process",
                                   full_name(operation.operator_name()), why),
                       "use a layer of lockstep::nn in its place, as nn::Dropout");
  throw *last_refusal;
}

void check_device(const c10::OperatorHandle& operation, const Stack& stack) {
  const auto device = device_of(operation, stack);
  if (!device.is_cpu()) refuse(operation, fmt::format("on {} it takes no generator", device.str()));
}

/// Goes on behind the key. What the kernel itself calls passes the key again.
void go_on(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, Stack* stack) {
  const c10::DispatchKeySet behind(c10::DispatchKeySet::FULL_AFTER, kKey);
  operation.redispatchBoxed(keys & behind, stack);
}

void run_with_generator(const c10::OperatorHandle& operation, c10::DispatchKeySet keys,
                        Stack* stack) {
  auto* scope = RandomScope::current();
  auto* const generator = find_value(operation, *stack, is_generator);
  if (generator != nullptr && generator->isNone()) {
    // libtorch hands the key on to threads that it starts, but no scope.
    if (scope == nullptr) refuse(operation, "it runs in a thread without a replica");
    check_device(operation, *stack);
    *generator = at::make_generator<at::CPUGeneratorImpl>(scope->next_call().key());
  }
  go_on(operation, keys, stack);
}

/// On the CPU it is made of operations that take a generator; elsewhere it has a kernel of its own.
void run_native_dropout(const c10::OperatorHandle& operation, c10::DispatchKeySet keys,
                        Stack* stack) {
  check_device(operation, *stack);
  go_on(operation, keys, stack);
}

/// Without a generator of its own it may still draw nothing: attention without dropout.
bool draws_nothing(const c10::OperatorHandle& operation, Stack& stack) {
  const auto* const share = find_value(
      operation, stack, [](const c10::Argument& each) { return each.name() == "dropout_p"; });
  return share != nullptr && share->isDouble() && share->toDouble() == 0;
}

void run_if_nothing_is_drawn(const c10::OperatorHandle& operation, c10::DispatchKeySet keys,
                             Stack* stack) {
  if (!draws_nothing(operation, *stack)) refuse(operation, "it takes no generator");
  go_on(operation, keys, stack);
}

/// Whether it is made of other operations, which pass by themselves.
bool is_composite(const c10::OperatorHandle& operation) {
  return operation.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) ||
         operation.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd);
}

/// What an operation does under the key; nothing for those that pass it by.
std::optional<torch::CppFunction> function_for(const c10::OperatorHandle& operation) {
  if (takes_generator(operation)) {
    return torch::CppFunction::makeFromBoxedFunction<&run_with_generator>();
  }
  if (!operation.hasTag(at::Tag::nondeterministic_seeded) || is_composite(operation)) {
    return std::nullopt;
  }
  if (operation.schema().name() == "aten::native_dropout") {
    return torch::CppFunction::makeFromBoxedFunction<&run_native_dropout>();
  }
  return torch::CppFunction::makeFromBoxedFunction<&run_if_nothing_is_drawn>();
}

/// What is registered with libtorch, for as long as the process lives.
class Routes {
 public:
  Routes() {
    library("_").fallback(torch::CppFunction::makeFallthrough());
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const auto& name : dispatcher.getAllOpNames()) {
      const auto operation = dispatcher.findSchema(name);
      if (!operation) continue;
      if (auto function = function_for(*operation)) add(name, std::move(*function));
    }
  }

 private:
  torch::Library& library(const std::string& name) {
    auto& library = libraries_[name];
    if (!library) {
      library =
          std::make_unique<torch::Library>(torch::Library::IMPL, name, kKey, "lockstep", __LINE__);
    }
    return *library;
  }

  void add(const c10::OperatorName& name, torch::CppFunction function) {
    const auto full = full_name(name);
    const auto colons = full.find("::");
    library(full.substr(0, colons)).impl(full.substr(colons + 2).c_str(), std::move(function));
  }

  std::map<std::string, std::unique_ptr<torch::Library>> libraries_;
};

}  // namespace

void route_random_operations() {
  // Never taken back: at the end of the process, libtorch's own tables may already be gone.
  [[maybe_unused]] static const auto* routes = new Routes();
  c10::impl::tls_set_dispatch_key_included(kKey, true);
}

void unroute_random_operations() noexcept {
  c10::impl::tls_set_dispatch_key_included(kKey, false);
}

std::optional<Error> take_refusal() {
  return std::exchange(last_refusal, std::nullopt);
}

}  // namespace lockstep::nn

#include "lockstep/nn/script/trainable_graph.h"

#include <fmt/format.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::nn {
namespace {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

/// Calls `visit` for each node of a block and of the blocks inside it.
void for_each_node(torch::jit::Block* block, const std::function<void(Node*)>& visit) {
  for (auto* node : block->nodes()) {
    visit(node);
    for (auto* inner : node->blocks()) for_each_node(inner, visit);
  }
}

std::optional<std::size_t> argument_called(const Node* node, const std::set<std::string>& names) {
  const auto* schema = node->maybeSchema();
  if (schema == nullptr || !node->kind().is_aten()) return std::nullopt;
  for (std::size_t i = 0; i < schema->arguments().size(); ++i) {
    if (names.count(schema->arguments()[i].name()) > 0) return i;
  }
  return std::nullopt;
}

/// Dropout that drops nothing, as of an LSTM with one layer, does not care.
bool drops_nothing(const Node* node) {
  const auto share = argument_called(node, {"p", "dropout"});
  if (!share) return false;
  const auto constant = torch::jit::toIValue(node->input(*share));
  return constant && constant->isDouble() && constant->toDouble() == 0;
}

/// Which input of an operation tells it whether it trains: that of batch norm, dropout and others.
std::optional<std::size_t> training_input(const Node* node) {
  const auto flag = argument_called(node, {"training", "train"});
  if (!flag || drops_nothing(node)) return std::nullopt;
  const auto& type = node->maybeSchema()->arguments()[*flag].type();
  return type->kind() == c10::TypeKind::BoolType ? flag : std::nullopt;
}

std::optional<bool> constant_flag(const Value* value) {
  const auto constant = torch::jit::toIValue(value);
  if (!constant || !constant->isBool()) return std::nullopt;
  return constant->toBool();
}

void refuse_what_races(const Node* node, const std::string& where) {
  static const std::set<std::string> kSeeding{"aten::manual_seed", "aten::seed",
                                              "aten::set_rng_state"};
  const std::string name = node->kind().toQualString();
  if (kSeeding.count(name) > 0) {
    throw Error(ErrorKind::Data,
                fmt::format("{}: it calls {}, which sets the one generator of the process under "
                            "all replicas",
                            where, name),
                "take the call out of forward; --seed decides what is drawn");
  }
  if (name == "prim::fork") {
    throw Error(
        ErrorKind::Data,
        fmt::format("{}: it calls torch.jit.fork, whose threads are not the replica's", where),
        "call the function itself");
  }
}

/// The graphs that nodes of a graph call as functions.
torch::jit::GraphFunction* called_function(const Node* node) {
  if (node->kind() != c10::prim::CallFunction) return nullptr;
  const auto type = node->input(0)->type()->cast<c10::FunctionType>();
  return type ? torch::jit::tryToGraphFunction(*type->function()) : nullptr;
}

/// A layer of torch.nn, which scripting keeps with its constants and tracing without.
bool is_layer(const c10::ClassType& type) {
  const auto name = type.name() ? type.name()->qualifiedName() : "";
  return name.find("torch.nn.modules.") != std::string::npos &&
         name.find(".container.") == std::string::npos;
}

Origin origin_of(const torch::jit::Module& module) {
  std::vector<c10::ClassTypePtr> layers;
  for (const auto& each : module.modules()) {
    if (is_layer(*each.type())) layers.push_back(each.type());
  }
  const bool is_bare = std::all_of(layers.begin(), layers.end(),
                                   [](const auto& type) { return type->numConstants() == 0; });
  return !layers.empty() && is_bare ? Origin::Traced : Origin::Scripted;
}

/// Goes through the graphs of a module, of its children and of what they call, each once.
class GraphWalk {
 public:
  GraphWalk(const std::string& where, Origin origin) : where_(where), origin_(origin) {}

  void visit(const torch::jit::Module& module) {
    for (const auto& method : module.get_methods()) visit(*method.graph());
    for (const auto& child : module.children()) visit(child);
  }

  void refuse_if_traced_for_evaluation() const {
    if (origin_ == Origin::Scripted || evaluating_ == 0 || training_ > 0) return;
    throw Error(
        ErrorKind::Data,
        fmt::format("{}: it was traced for evaluation: all {} of its batch norm and dropout "
                    "operations have training=False recorded",
                    where_, evaluating_),
        "call model.train() before torch.jit.trace, or use torch.jit.script");
  }

 private:
  void visit(Graph& graph) {
    if (!visited_.insert(&graph).second) return;
    for_each_node(graph.block(), [&](Node* node) {
      refuse_what_races(node, where_);
      if (auto* const function = called_function(node)) visit(*function->graph());
      if (const auto input = training_input(node)) visit_flag(graph, node, *input);
    });
  }

  void visit_flag(Graph& graph, Node* node, std::size_t input) {
    const auto flag = constant_flag(node->input(input));
    if (!flag || origin_ == Origin::Scripted) return;
    ++(*flag ? training_ : evaluating_);
    if (*flag) follow_mode(graph, node, input);
  }

  static void follow_mode(Graph& graph, Node* node, std::size_t input) {
    if (graph.inputs().empty()) return;
    auto* const self = graph.inputs()[0];
    const auto type = self->type()->cast<c10::ClassType>();
    if (!type || !type->hasAttribute("training")) return;
    const torch::jit::WithInsertPoint before(node);
    node->replaceInput(input, graph.insertGetAttr(self, "training"));
  }

  const std::string& where_;
  Origin origin_;
  std::set<const Graph*> visited_;
  int training_ = 0;
  int evaluating_ = 0;
};

}  // namespace

Origin make_graph_trainable(const torch::jit::Module& module, const std::string& where) {
  const auto origin = origin_of(module);
  GraphWalk walk(where, origin);
  walk.visit(module);
  walk.refuse_if_traced_for_evaluation();
  return origin;
}

}  // namespace lockstep::nn

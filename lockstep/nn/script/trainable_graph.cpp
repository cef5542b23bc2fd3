#include "lockstep/nn/script/trainable_graph.h"

#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <functional>
#include <optional>
#include <set>

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

/// Which input of an operation tells it whether it trains: that of batch norm, dropout and others.
std::optional<std::size_t> training_input(const Node* node) {
  const auto* schema = node->maybeSchema();
  if (schema == nullptr || !node->kind().is_aten()) return std::nullopt;
  for (std::size_t i = 0; i < schema->arguments().size(); ++i) {
    const auto& argument = schema->arguments()[i];
    const bool is_named_so = argument.name() == "training" || argument.name() == "train";
    if (is_named_so && argument.type()->kind() == c10::TypeKind::BoolType) return i;
  }
  return std::nullopt;
}

std::optional<bool> constant_flag(const Value* value) {
  const auto constant = torch::jit::toIValue(value);
  if (!constant || !constant->isBool()) return std::nullopt;
  return constant->toBool();
}

void refuse_seed(const Node* node, const std::string& where) {
  static const std::set<std::string> kSeeding{"aten::manual_seed", "aten::seed",
                                              "aten::set_rng_state"};
  const std::string name = node->kind().toQualString();
  if (kSeeding.count(name) == 0) return;
  throw Error(ErrorKind::Data,
              fmt::format("{}: it calls {}, which sets the one generator of the process under all "
                          "replicas",
                          where, name),
              "take the call out of forward; --seed decides what is drawn");
}

/// Goes through the graphs of a module and of its children.
class GraphWalk {
 public:
  explicit GraphWalk(const std::string& where) : where_(where) {}

  void visit(const torch::jit::Module& module) {
    for (const auto& method : module.get_methods()) visit(*method.graph());
    for (const auto& child : module.children()) visit(child);
  }

  void refuse_if_traced_for_evaluation() const {
    if (evaluating_ == 0 || training_ > 0 || open_ > 0) return;
    throw Error(
        ErrorKind::Data,
        fmt::format("{}: it was traced for evaluation: all {} of its batch norm and dropout "
                    "operations have training=False recorded",
                    where_, evaluating_),
        "call model.train() before torch.jit.trace, or use torch.jit.script");
  }

 private:
  void visit(Graph& graph) {
    for_each_node(graph.block(), [&](Node* node) {
      refuse_seed(node, where_);
      if (const auto input = training_input(node)) visit_flag(graph, node, *input);
    });
  }

  void visit_flag(Graph& graph, Node* node, std::size_t input) {
    const auto flag = constant_flag(node->input(input));
    ++(!flag ? open_ : *flag ? training_ : evaluating_);
    if (flag == true) follow_mode(graph, node, input);
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
  int training_ = 0;
  int evaluating_ = 0;
  int open_ = 0;
};

}  // namespace

void make_graph_trainable(const torch::jit::Module& module, const std::string& where) {
  GraphWalk walk(where);
  walk.visit(module);
  walk.refuse_if_traced_for_evaluation();
}

}  // namespace lockstep::nn

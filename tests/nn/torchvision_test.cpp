#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <set>

#include "lockstep/nn/model_weights.h"
#include "lockstep/nn/module_model.h"
#include "lockstep/nn/module_tensors.h"
#include "lockstep/nn/random/random_scope.h"
#include "lockstep/nn/zoo/zoo.h"
#include "lockstep/weights/weight_file.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::nn {
namespace {

using namespace std::chrono_literals;

/// Debian's, which has python3-torchvision; another Python may stand before it in PATH.
constexpr const char* kPython = "/usr/bin/python3";

bool has_torchvision() {
  return testing::run({kPython, "-c", "import torchvision"}).exit_code == 0;
}

testing::Finished peer(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {kPython, TORCHVISION_PEER});
  return testing::Subprocess(arguments).wait(180s);
}

/// Lines "model name [shape] type".
std::set<std::string> lines_of(const std::string& name) {
  std::set<std::string> lines;
  const auto net = make_network(
      {.name = name, .classes = 1000, .size = {.height = 64, .width = 64}, .options = {}});
  for (const auto& named : tensors_of(*net)) {
    lines.insert(fmt::format("{} {} [{}] {}", name, named.name,
                             fmt::join(named.tensor.sizes().vec(), ", "),
                             named.tensor.scalar_type() == torch::kLong ? "int64" : "float32"));
  }
  return lines;
}

TEST(TorchvisionTest, ResNetsHaveItsNamesShapesAndTypes) {
  if (!has_torchvision()) GTEST_SKIP() << "python3-torchvision is not installed";
  const auto told = peer({"names"});
  ASSERT_EQ(told.exit_code, 0) << told.err;
  std::map<std::string, std::set<std::string>> theirs;
  std::istringstream stream(told.out);
  for (std::string line; std::getline(stream, line);) {
    theirs[line.substr(0, line.find(' '))].insert(line);
  }
  ASSERT_EQ(theirs.size(), 5U);
  for (const auto& [name, lines] : theirs) EXPECT_EQ(lines_of(name), lines) << name;
}

at::Tensor tensor_of(const weights::WeightFile& file, const char* name) {
  const auto* const view = file.find(name);
  const auto tensor = torch::empty(view->shape);
  std::memcpy(tensor.data_ptr(), view->bytes.data(), view->bytes.size());
  return tensor;
}

void write(const std::string& path, const std::map<std::string, at::Tensor>& tensors) {
  weights::TensorSet set;
  for (const auto& [name, tensor] : tensors) {
    set.tensors.push_back({name,
                           weights::ElementType::F32,
                           tensor.sizes().vec(),
                           {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()}});
  }
  weights::write_weights(path, set);
}

TEST(TorchvisionTest, AResNet50GoesThereAndComesBackWithItsLogits) {
  if (!has_torchvision()) GTEST_SKIP() << "python3-torchvision is not installed";
  const torch::NoGradGuard no_grad;
  const testing::ScratchFolder folder;
  const auto path = [&](const char* name) { return folder.path() + "/" + name; };
  const auto ours = model_of(resnet50(1000, {.seed = 7}));
  const auto picture = make_seeded(1, [] { return torch::randn({2, 3, 64, 64}); });
  ours->forward(picture);  // moves the running statistics
  ours->set_mode(Mode::Evaluate);
  save_weights(*ours, path("ours.pt"));
  save_weights(*ours, path("ours.safetensors"));
  write(path("ours_logits.pt"), {{"input", picture}, {"logits", ours->forward(picture).clone()}});

  const auto exchanged = peer({"exchange", folder.path()});
  ASSERT_EQ(exchanged.exit_code, 0) << exchanged.out << exchanged.err;

  const auto theirs = model_of(resnet50(1000));
  load_weights(*theirs, path("theirs.pt"));
  theirs->set_mode(Mode::Evaluate);
  const auto expected = weights::read_weights(path("theirs_logits.pt"));
  const auto logits = theirs->forward(tensor_of(expected, "input"));
  EXPECT_LT((logits - tensor_of(expected, "logits")).abs().max().item<double>(), 1e-4);
}

}  // namespace
}  // namespace lockstep::nn

#include "lockstep/nn/script/script_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <thread>

#include "lockstep/nn/model_weights.h"
#include "lockstep/nn/random/random_scope.h"
#include "lockstep/nn/trial.h"
#include "lockstep/weights/weight_file.h"
#include "tests/nn/tensors.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::nn {
namespace {

using ::testing::ElementsAre;

/// Made by make_scripts.py.
std::string fixture(const std::string& name) {
  return std::string(FIXTURES) + "/" + name;
}

at::Tensor script_images() {
  return make_seeded(1, [] { return torch::randn({4, 3, 6, 6}); });
}

struct File {
  const char* name;
  friend std::ostream& operator<<(std::ostream& stream, const File& file) {
    return stream << file.name;
  }
};
class ScriptTest : public ::testing::TestWithParam<File> {
 protected:
  std::unique_ptr<Model> load() const { return load_script(fixture(GetParam().name)); }
};
INSTANTIATE_TEST_SUITE_P(All, ScriptTest,
                         ::testing::Values(File{"scripted.pt"}, File{"traced.pt"}));

double step(Model& model, std::uint64_t number) {
  const RandomScope scope({.seed = 3, .step = number});
  const auto loss = torch::cross_entropy_loss(model.forward(script_images()), torch::arange(4));
  loss.backward();
  const torch::NoGradGuard no_grad;
  for (const auto& slot : slots_of(model.tensors())) {
    if (slot.role != TensorRole::Parameter) continue;
    slot.tensor().sub_(slot.tensor().grad(), 0.5);
    slot.tensor().mutable_grad().reset();
  }
  return loss.item<double>();
}

TEST_P(ScriptTest, FindsParametersAndBuffers) {
  const auto model = load();
  std::vector<std::string> names;
  for (const auto& slot : slots_of(model->tensors())) names.push_back(slot.name());
  EXPECT_THAT(names, ElementsAre("conv.bias", "conv.weight", "fc.bias", "fc.weight", "norm.bias",
                                 "norm.num_batches_tracked", "norm.running_mean",
                                 "norm.running_var", "norm.weight"));
  EXPECT_EQ(count_parameters(*model), 3 * 8 * 9 + 8 + 16 + 36);
  EXPECT_EQ(try_step(*model, {2, 3, 6, 6}), 4);
}

TEST_P(ScriptTest, Trains) {
  const auto model = load();
  const auto first = step(*model, 0);
  double last = 0;
  for (std::uint64_t number = 1; number < 60; ++number) last = step(*model, number);
  EXPECT_LT(last, 0.6 * first);
}

TEST_P(ScriptTest, EvaluatesAsPythonDoes) {
  const auto model = load();
  load_weights(*model, fixture("weights.pt"));
  model->set_mode(Mode::Evaluate);
  const auto expected = weights::read_weights(fixture("evaluated.pt"));
  const auto tensor_of = [&](const char* name) {
    const auto* view = expected.find(name);
    const auto values = torch::empty(view->shape);
    std::memcpy(values.data_ptr(), view->bytes.data(), view->bytes.size());
    return values;
  };
  const torch::NoGradGuard no_grad;
  testing::expect_close(model->forward(tensor_of("input")), tensor_of("logits"), 1e-5);
}

TEST_P(ScriptTest, GivesTheSameBitsInEveryRun) {
  // TorchScript would switch to optimized graphs after its first runs.
  const auto model = load();
  const auto run = [&] {
    const auto copy = model->clone();
    const RandomScope scope({.seed = 1});
    const auto output = copy->forward(script_images());
    output.sum().backward();
    return slots_of(copy->tensors())[1].tensor().grad();
  };
  const auto first = run();
  for (int i = 0; i < 6; ++i) testing::expect_same_bits(run(), first);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 5; ++j) testing::expect_same_bits(run(), first, "side by side");
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_P(ScriptTest, DrawsItsDropoutForTheReplica) {
  const auto model = load();
  const auto run = [&](std::uint32_t replica) {
    const RandomScope scope({.seed = 1, .replica = replica});
    return model->forward(script_images());
  };
  const auto first = run(0);
  torch::manual_seed(9);
  testing::expect_same_bits(run(0), first);
  EXPECT_FALSE(at::equal(run(1), first));
}

TEST(ScriptModelTest, ModesAreThoseOfTheModuleAlsoWhereTracingRecordedOne) {
  const auto model = load_script(fixture("traced.pt"));
  const auto tracked = [&] {
    for (const auto& named : model->tensors()) {
      if (named.name == "norm.running_mean") return named.tensor.clone();
    }
    return at::Tensor();
  };
  const auto before = tracked();
  model->set_mode(Mode::Evaluate);
  model->forward(script_images());
  testing::expect_same_bits(tracked(), before, "evaluation");
  model->set_mode(Mode::Train);
  model->forward(script_images());
  EXPECT_FALSE(at::equal(tracked(), before)) << "training";
}

TEST(ScriptModelTest, KeepsTiesInClonesAndFiles) {
  const auto model = load_script(fixture("tied.pt"));
  const auto names = [](const Model& tied) { return slots_of(tied.tensors()).at(1).names; };
  EXPECT_THAT(names(*model), ElementsAre("first.weight", "second.weight"));
  EXPECT_EQ(count_parameters(*model), 36 + 12);
  EXPECT_THAT(names(*model->clone()), ElementsAre("first.weight", "second.weight"));
  const testing::ScratchFolder folder;
  for (const auto* name : {"/tied.safetensors", "/tied.pt"}) {
    save_weights(*model, folder.path() + name);
    const auto again = model->clone();
    {
      const torch::NoGradGuard no_grad;
      for (const auto& named : again->tensors()) named.tensor.zero_();
    }
    load_weights(*again, folder.path() + name);
    EXPECT_EQ(digest_of(*again), digest_of(*model));
    EXPECT_THAT(names(*again), ElementsAre("first.weight", "second.weight"));
  }
}

at::Tensor tensor_called(const Model& model, const std::string& name) {
  for (const auto& named : model.tensors()) {
    if (named.name == name) return named.tensor;
  }
  ADD_FAILURE() << "there is no " << name;
  return {};
}

TEST(ScriptModelTest, KeepsEveryBufferAsItIsWhileItEvaluates) {
  const auto model = load_script(fixture("traced.pt"));
  const auto digest = digest_of(*model);
  model->set_mode(Mode::Evaluate);
  model->forward(script_images());
  EXPECT_EQ(digest_of(*model), digest);
  EXPECT_EQ(digest_of(*model->clone()), digest);
}

TEST(ScriptModelTest, KeepsApartWhatIsCutFromOneMemory) {
  const auto model = load_script(fixture("cuts.pt"));
  const auto clone = model->clone();
  EXPECT_EQ(slots_of(clone->tensors()).size(), 4U);
  EXPECT_EQ(tensor_called(*clone, "a").sum().item<float>(), 0 + 1 + 2 + 3);
  EXPECT_EQ(tensor_called(*clone, "b").sum().item<float>(), 4 + 5 + 6 + 7);
  EXPECT_EQ(digest_of(*clone), digest_of(*model));
}

TEST(ScriptModelTest, FindsBuffersThatMayBeNone) {
  const auto model = load_script(fixture("maybe_buffer.pt"));
  model->forward(torch::ones({2, 4}));
  EXPECT_EQ(tensor_called(*model, "count").item<float>(), 1);
}

TEST(ScriptModelTest, LeavesScriptedCodeAsItIsWritten) {
  const auto model = load_script(fixture("as_written.pt"));
  model->set_mode(Mode::Evaluate);
  const RandomScope scope({.seed = 1});
  const auto output = model->forward(torch::ones({64, 4}));
  EXPECT_GT((output == 0).sum().item<std::int64_t>(), 64) << "its dropout is always on";
}

struct Refused {
  const char* file;
  const char* reason;
  friend std::ostream& operator<<(std::ostream& stream, const Refused& refused) {
    return stream << refused.file;
  }
};
class RefusedScriptTest : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedScriptTest, SaysWhyItCannotBeTrained) {
  testing::expect_error([] { load_script(fixture(GetParam().file)); }, ErrorKind::Data,
                        GetParam().reason);
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedScriptTest,
    ::testing::Values(Refused{"frozen.pt", "it has no parameters that could be trained"},
                      Refused{"traced_for_evaluation.pt",
                              "it was traced for evaluation: all 2 of its batch norm and dropout"},
                      Refused{"double.pt", "expected parameters of 32-bit floats, found Double in"},
                      Refused{"two_inputs.pt", "expected forward to take one input, found 2"},
                      Refused{"seeding.pt", "it calls aten::manual_seed"},
                      Refused{"calls_seeding.pt", "it calls aten::manual_seed"},
                      Refused{"forking.pt", "it calls torch.jit.fork"},
                      Refused{"weights.pt", "weights alone go to --init-from"}));

TEST(ScriptModelTest, SaysWhatIsWrongWithAFile) {
  testing::expect_error([] { load_script("/nowhere/model.pt"); }, ErrorKind::Io,
                        "model: there is no file '/nowhere/model.pt'");
  const testing::ScratchFolder folder;
  const auto path = folder.write("garbage.pt", "PK\x03\x04 not really");
  testing::expect_error([&] { load_script(path); }, ErrorKind::Data, "that can be loaded");
  // libtorch would read this one without checking it.
  const auto flat = folder.write("flat.pt", std::string("\0\0\0\0PTMF", 8) + std::string(64, 'x'));
  testing::expect_error([&] { load_script(flat); }, ErrorKind::Data, "it is no zip file");
  std::ifstream whole(fixture("scripted.pt"), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(whole)), {});
  for (const std::size_t length : {bytes.size() / 3, bytes.size() / 2, bytes.size() - 1}) {
    const auto cut = folder.write("cut.pt", bytes.substr(0, length));
    testing::expect_error([&] { load_script(cut); }, ErrorKind::Data, "expected a TorchScript");
  }
}

TEST(ScriptModelTest, SaysWhichShapeItCannotCompute) {
  const auto bound = load_script(fixture("bound.pt"));
  testing::expect_error(
      [&] {
        bound->forward(torch::ones({2, 3, 2, 2}));
      },
      ErrorKind::Options, "cannot compute an input of shape [2, 3, 2, 2]");
}

}  // namespace
}  // namespace lockstep::nn

#include "lockstep/nn/model_weights.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/nn/module_model.h"
#include "lockstep/nn/random/random_scope.h"
#include "lockstep/nn/zoo/quick_networks.h"
#include "lockstep/nn/zoo/resnet.h"
#include "lockstep/weights/weight_file.h"
#include "tests/nn/tensors.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::nn {
namespace {

std::unique_ptr<Model> small(std::uint64_t seed = 0) {
  return model_of(convnet(10, {.seed = seed}));
}

TEST(ModelWeightsTest, ComeBackBitForBitFromBothFormats) {
  const auto model = small(1);
  model->forward(torch::randn({4, 3, 8, 8}));  // moves the running statistics
  const testing::ScratchFolder folder;
  for (const auto* name : {"/weights.safetensors", "/weights.pt", "/weights.pth"}) {
    save_weights(*model, folder.path() + name);
    const auto other = small(2);
    EXPECT_NE(digest_of(*other), digest_of(*model));
    load_weights(*other, folder.path() + name);
    EXPECT_EQ(digest_of(*other), digest_of(*model));
    EXPECT_EQ(weights::read_weights(folder.path() + name).digest(), digest_of(*model));
    const auto run = [](Model& each) {  // with the same dropout
      return make_seeded(3, [&] { return each.forward(torch::ones({2, 3, 8, 8})); });
    };
    testing::expect_same_bits(run(*other), run(*model->clone()));
  }
}

TEST(ModelWeightsTest, DigestSeesEveryTensorAndNoMemoryFormat) {
  const auto first = small();
  const auto digest = digest_of(*first);
  EXPECT_EQ(digest.size(), 16U);
  EXPECT_EQ(digest, digest_of(*small()));
  for (const auto& named : first->tensors()) {
    const auto changed = small();
    for (const auto& each : changed->tensors()) {
      const torch::NoGradGuard no_grad;
      if (each.name == named.name) each.tensor.as_strided({1}, {1}) += 1;
    }
    EXPECT_NE(digest_of(*changed), digest) << named.name;
  }
  const auto net = convnet(10);
  for (auto& parameter : net->parameters()) parameter.set_data(parameter.data().contiguous());
  EXPECT_EQ(digest_of(*model_of(net)), digest);
}

TEST(ModelWeightsTest, DigestOfAResNetIsKnown) {
  // If this changes, then so did the digest or the first weights, and every published digest with
  // them.
  EXPECT_EQ(digest_of(*model_of(resnet20(10, {.seed = 2022}))), "eb7a900b26567041");
}

TEST(ModelWeightsTest, ListWhatDoesNotFitAndLeaveTheModelAsItWas) {
  const testing::ScratchFolder folder;
  const auto path = folder.path() + "/weights.safetensors";
  save_weights(*small(), path);
  const auto other = model_of(convnet(100, {.seed = 5}));
  const auto before = digest_of(*other);
  testing::expect_error([&] { load_weights(*other, path); }, ErrorKind::Data, "fc.weight");
  testing::expect_error([&] { load_weights(*other, path); }, ErrorKind::Data, "[10, 128]");
  EXPECT_EQ(digest_of(*other), before);
  const auto resnet = model_of(resnet20(10));
  testing::expect_error([&] { load_weights(*resnet, path); }, ErrorKind::Data, "missing");
}

TEST(ModelWeightsTest, KeepTensorsWithoutElements) {
  auto module = std::make_shared<torch::nn::SequentialImpl>(torch::nn::Linear(2, 2));
  const auto empty = torch::empty({0, 3});
  module->register_buffer("a", empty);
  module->register_buffer("b", empty);
  const auto model = model_of(module);
  const testing::ScratchFolder folder;
  for (const auto* name : {"/w.safetensors", "/w.pt"}) {
    save_weights(*model, folder.path() + name);
    load_weights(*model, folder.path() + name);
    EXPECT_EQ(weights::read_weights(folder.path() + name).digest(), digest_of(*model));
  }
}

TEST(ModelWeightsTest, RefuseOtherExtensions) {
  testing::expect_error([] { save_weights(*small(), "weights.onnx"); }, ErrorKind::Options,
                        ".safetensors");
}

TEST(ModelWeightsTest, RefuseTypesThatFilesDoNotKeep) {
  auto module = std::make_shared<torch::nn::SequentialImpl>(torch::nn::Linear(2, 2));
  module->register_buffer("complex", torch::zeros({2}, torch::kComplexFloat));
  testing::expect_error([&] { digest_of(*model_of(module)); }, ErrorKind::Unavailable,
                        "'complex' is of type ComplexFloat");
}

}  // namespace
}  // namespace lockstep::nn

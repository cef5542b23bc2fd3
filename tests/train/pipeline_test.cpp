#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <atomic>
#include <mutex>

#include "lockstep/data/sets/synthetic.h"
#include "lockstep/data/transform/presets.h"
#include "lockstep/nn/layers/batch_norm.h"
#include "lockstep/nn/layers/dropout.h"
#include "lockstep/nn/memory/block_pool.h"
#include "lockstep/nn/memory/kept_activations.h"
#include "lockstep/nn/zoo/resnet.h"
#include "lockstep/plan/stage_split.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"
#include "tests/train/jobs.h"

namespace lockstep {
namespace {

using testing::alone;
using testing::run_job;

data::DatasetPtr pipeline_images(std::int64_t size, data::Split split = data::Split::Train) {
  return data::synthetic({.size = size, .height = 8, .width = 8, .seed = 3, .split = split});
}

/// Six blocks with everything that could tell a split run from a whole one: running statistics of
/// ours and of libtorch's, both kinds of dropout, and a residual over a block.
std::shared_ptr<nn::Network> many_blocks() {
  return nn::make_seeded(1, [] {
    return std::make_shared<nn::Network>([](nn::Network& net) {
      const auto convolution = [&](const std::string& name, int in, int out) {
        return net.register_module(
            name, torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1)));
      };
      auto conv1 = convolution("conv1", 3, 8);
      auto norm1 = net.register_module("norm1", nn::BatchNorm(8));
      net.add_block({"stem", {"conv1", "norm1"}, [=](const at::Tensor& x) {
                       return norm1->forward_relu(conv1->forward(x));
                     }});
      auto conv2 = convolution("conv2", 8, 8);
      auto norm2 = net.register_module("norm2", torch::nn::BatchNorm2d(8));
      net.add_block({"body.0", {"conv2", "norm2"}, [=](const at::Tensor& x) {
                       return torch::relu(norm2->forward(conv2->forward(x)) + x);
                     }});
      auto ours = net.register_module("ours", nn::Dropout(0.3));
      net.add_block({"body.1", {"ours"}, [=](const at::Tensor& x) { return ours->forward(x); }});
      auto conv3 = convolution("conv3", 8, 8);
      auto norm3 = net.register_module("norm3", nn::BatchNorm(8));
      net.add_block({"body.2", {"conv3", "norm3"}, [=](const at::Tensor& x) {
                       return norm3->forward_add_relu(conv3->forward(x), x);
                     }});
      auto theirs = net.register_module("theirs", torch::nn::Dropout(0.2));
      net.add_block({"body.3", {"theirs"}, [=](const at::Tensor& x) {
                       return theirs->forward(torch::avg_pool2d(x, 4).flatten(1));
                     }});
      auto head = net.register_module("head", torch::nn::Linear(8 * 4, 10));
      net.add_block({"head", {"head"}, [=](const at::Tensor& x) { return head->forward(x); }});
    });
  });
}

torch::nn::Sequential sequential() {
  return nn::make_seeded(2, [] {
    return torch::nn::Sequential(
        torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 6, 3).stride(2)), torch::nn::BatchNorm2d(6),
        torch::nn::ReLU(torch::nn::ReLUOptions(true)), torch::nn::Dropout(0.25),
        torch::nn::Flatten(), torch::nn::Linear(6 * 9, 10));
  });
}

struct Trial {
  int stages = 1;
  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;
  Recompute recompute = Recompute::None;
  int instances = 1;
  int replicas = 2;
  std::int64_t micro_batches = 4;
  std::vector<std::string> split{};
  bool frozen = false;
};
void PrintTo(const Trial& run, std::ostream* out) {
  *out << fmt::format("S={} {} recompute={} I={} R={} G={}", run.stages, name_of(run.schedule),
                      name_of(run.recompute), run.instances, run.replicas, run.micro_batches);
}

/// All that may not depend on stages.
struct PipelineOutcome {
  std::string digest;
  std::vector<std::vector<float>> losses;
  double test_loss = 0;

  bool operator==(const PipelineOutcome&) const = default;
};
void PrintTo(const PipelineOutcome& outcome, std::ostream* out) {
  *out << outcome.digest << " test loss " << outcome.test_loss;
}

template <typename Make>
PipelineOutcome train(const Options& options, const Make& make) {
  const auto set = pipeline_images(160);
  DataLoader loader(options, set, {.batch_size = 4, .shuffle = true, .workers = 1});
  EvaluationLoader test(options, pipeline_images(30, data::Split::Test),
                        {.batch_size = 4, .workers = 1});
  TrainingModel model(make(), options, SGD({.lr = 0.05, .momentum = 0.9}));
  PipelineOutcome outcome;
  model.on_step(
      [&](std::int64_t, const StepResult& step) { outcome.losses.push_back(step.replica_losses); });
  for (auto& iteration : loader) model.step(iteration);
  outcome.digest = model.digest();
  outcome.test_loss = model.evaluate(test).loss;
  return outcome;
}

template <typename Make>
PipelineOutcome train(const Trial& run, const Make& make) {
  const testing::ScratchFolder cache;
  std::vector<PipelineOutcome> outcomes(static_cast<std::size_t>(run.instances));
  run_job(
      run.instances, run.replicas,
      [&](Options options) {
        options.gradient_accumulation(run.micro_batches).seed(11).cache(cache.path());
        options.pipeline(run.schedule).recompute(run.recompute);
        for (const auto& block : run.split) options.begin_stage(block);
        outcomes[static_cast<std::size_t>(options.world().instance())] = train(options, make);
      },
      run.stages);
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome, outcomes.front());
  return outcomes.front();
}

constexpr std::array kSchedules{PipelineSchedule::OneForwardOneBackward, PipelineSchedule::GPipe,
                                PipelineSchedule::Sequential};
constexpr std::array kRecomputes{Recompute::None, Recompute::Stage, Recompute::Blocks};

TEST(PipelineTest, GivesTheBitsOfAWholeReplicaUnderEverySchedule) {
  const auto whole = train(Trial{}, many_blocks);
  for (const int stages : {1, 2, 3, 4}) {
    for (const auto schedule : kSchedules) {
      for (const auto recompute : kRecomputes) {
        const Trial run{.stages = stages, .schedule = schedule, .recompute = recompute};
        EXPECT_EQ(train(run, many_blocks), whole) << ::testing::PrintToString(run);
      }
    }
  }
}

TEST(PipelineTest, GivesTheSameBitsOverInstancesAndAccumulation) {
  for (const std::int64_t micro_batches : {1, 2, 5}) {
    const auto whole = train(Trial{.replicas = 3, .micro_batches = micro_batches}, many_blocks);
    for (const int instances : {1, 2, 3}) {
      for (const int stages : {2, 3, 4}) {
        const Trial run{.stages = stages,
                        .recompute = instances == 2 ? Recompute::Blocks : Recompute::None,
                        .instances = instances,
                        .replicas = 3,
                        .micro_batches = micro_batches};
        EXPECT_EQ(train(run, many_blocks), whole) << ::testing::PrintToString(run);
      }
    }
  }
}

TEST(PipelineTest, SplitsAnySequentialWhereItIsTold) {
  const auto whole = train(Trial{}, sequential);
  for (const auto* block : {"1", "2", "3", "4", "5"}) {
    const Trial run{.stages = 2, .split = {block}};
    EXPECT_EQ(train(run, sequential), whole) << block;
  }
  const Trial all{.stages = 6, .split = {"1", "2", "3", "4", "5"}};
  EXPECT_EQ(train(all, sequential), whole);
}

/// The ReLU works in place, as most people's do.
TEST(PipelineTest, RefusesToComputeAgainWhatChangesItsInput) {
  const Trial run{.stages = 2, .recompute = Recompute::Blocks};
  testing::expect_error([&] { train(run, sequential); }, ErrorKind::Options,
                        "the input of block '2' is changed in place");
}

/// One that lists its blocks by itself, and is made by a function.
struct ListedImpl : torch::nn::Module {
  ListedImpl() {
    first = register_module("first", torch::nn::Linear(3 * 64, 12));
    second = register_module("second", torch::nn::Linear(12, 10));
  }
  std::vector<nn::Block> blocks() {
    return {{"first",
             {"first"},
             [this](const at::Tensor& x) { return torch::tanh(first(x.flatten(1))); }},
            {"second", {"second"}, [this](const at::Tensor& x) { return second(x); }}};
  }
  torch::nn::Linear first{nullptr};
  torch::nn::Linear second{nullptr};
};

TEST(PipelineTest, SplitsAModuleThatListsItsBlocks) {
  const auto make = [] { return [] { return std::make_shared<ListedImpl>(); }; };
  EXPECT_EQ(train(Trial{.stages = 2}, make), train(Trial{}, make));
}

/// The second block learns what is the first one's, and does not say so.
struct SecretImpl : ListedImpl {
  std::vector<nn::Block> blocks() {
    auto blocks = ListedImpl::blocks();
    blocks[1].run = [this](const at::Tensor& x) { return second(x + first->bias); };
    blocks.push_back({"third", {}, [](const at::Tensor& x) { return x * 2; }});
    return blocks;
  }
};

/// Also where only blocks are computed again, each by itself.
TEST(PipelineTest, RefusesABlockThatLearnsWhatBelongsToAnotherStage) {
  const auto make = [] { return [] { return std::make_shared<SecretImpl>(); }; };
  for (const auto& trial : {Trial{.stages = 2, .recompute = Recompute::Stage, .split = {"second"}},
                            Trial{.stages = 2, .recompute = Recompute::Blocks, .split = {"third"}},
                            Trial{.recompute = Recompute::Blocks}}) {
    testing::expect_error([&] { train(trial, make); }, ErrorKind::Options, "first.bias");
  }
  testing::expect_error([&] { train(Trial{.stages = 2, .split = {"second"}}, make); },
                        ErrorKind::Options, "first.bias");
}

/// Two uses of one layer: what lies between them cannot be cut.
std::shared_ptr<nn::Network> tied() {
  return nn::make_seeded(3, [] {
    return std::make_shared<nn::Network>([](nn::Network& net) {
      auto in = net.register_module("in", torch::nn::Linear(3 * 64, 8));
      auto twice = net.register_module("twice", torch::nn::Linear(8, 8));
      auto out = net.register_module("out", torch::nn::Linear(8, 10));
      net.add_block({"in", {"in"}, [=](const at::Tensor& x) { return in->forward(x.flatten(1)); }});
      net.add_block(
          {"once", {"twice"}, [=](const at::Tensor& x) { return torch::tanh(twice->forward(x)); }});
      net.add_block({"again", {"twice"}, [=](const at::Tensor& x) {
                       return torch::tanh(twice->forward(x));
                     }});
      net.add_block({"out", {"out"}, [=](const at::Tensor& x) { return out->forward(x); }});
    });
  });
}

TEST(PipelineTest, KeepsBlocksTogetherThatShareAParameter) {
  const auto whole = train(Trial{}, tied);
  EXPECT_EQ(train(Trial{.stages = 2}, tied), whole);
  EXPECT_EQ(train(Trial{.stages = 3}, tied), whole);
  EXPECT_EQ(train(Trial{.recompute = Recompute::Blocks}, tied), whole);
  testing::expect_error([&] { train(Trial{.stages = 2, .split = {"again"}}, tied); },
                        ErrorKind::Options, "twice.");
  EXPECT_THROW(train(Trial{.stages = 4}, tied), Error);
}

TEST(PipelineTest, NamesTheBlocksThatThereAreForOneThatIsNot) {
  const Trial run{.stages = 2, .split = {"body.7"}};
  for (const auto* name : {"body.7", "body.0", "head"}) {
    testing::expect_error([&] { train(run, many_blocks); }, ErrorKind::Options, name);
  }
}

/// Where what a block gives, and what the next one takes, stands in memory, and their gradients.
struct Handed {
  std::mutex mutex;
  std::vector<const void*> given, taken, gradients_given, gradients_taken;

  void note(std::vector<const void*>& where, const at::Tensor& tensor) {
    const std::lock_guard lock(mutex);
    where.push_back(tensor.data_ptr());
  }
};

TEST(PipelineTest, HandsActivationsAndGradientsOnWithoutACopy) {
  Handed handed;
  std::atomic<bool> notes = false;
  const auto make = [&] {
    return std::make_shared<nn::Network>([&](nn::Network& net) {
      auto first = net.register_module("first", torch::nn::Linear(3 * 64, 16));
      auto second = net.register_module("second", torch::nn::Linear(16, 10));
      net.add_block({"first", {"first"}, [=, &handed, &notes](const at::Tensor& x) {
                       auto y = first->forward(x.flatten(1));
                       if (!notes) return y;
                       handed.note(handed.given, y);
                       y.register_hook([&handed](const at::Tensor& gradient) {
                         handed.note(handed.gradients_taken, gradient);
                       });
                       return y;
                     }});
      net.add_block({"second", {"second"}, [=, &handed, &notes](const at::Tensor& x) {
                       if (!notes) return second->forward(x);
                       handed.note(handed.taken, x);
                       x.register_hook([&handed](const at::Tensor& gradient) {
                         handed.note(handed.gradients_given, gradient);
                       });
                       return second->forward(x);
                     }});
    });
  };
  const testing::ScratchFolder cache;
  auto options = alone(1);
  options.gradient_accumulation(4).devices_per_replica(2).cache(cache.path());
  DataLoader loader(options, pipeline_images(16), {.batch_size = 4});
  TrainingModel model(make(), options, SGD());
  model.compile(loader);
  notes = true;
  model.step(*loader.begin());
  EXPECT_EQ(handed.given.size(), 4U);
  EXPECT_EQ(handed.taken, handed.given);
  EXPECT_EQ(handed.gradients_given.size(), 4U);
  EXPECT_EQ(handed.gradients_taken, handed.gradients_given);
}

/// Most people's modules do not say what they are made of.
TEST(PipelineTest, RefusesStagesOfAModelThatIsOneBlock) {
  testing::expect_error(
      [] { train(Trial{.stages = 2}, [] { return testing::small_net(3 * 64, 8, 10); }); },
      ErrorKind::Options, "--devices-per-replica 1");
}

/// A frozen front part has nothing to derive.
TEST(PipelineTest, LeavesFrozenStagesAlone) {
  const auto make = [] {
    auto net = many_blocks();
    for (auto& named : net->named_parameters()) {
      if (named.key().starts_with("conv1") || named.key().starts_with("norm1")) {
        named.value().set_requires_grad(false);
      }
    }
    return net;
  };
  const auto whole = train(Trial{}, make);
  EXPECT_EQ(train(Trial{.stages = 2, .split = {"body.0"}}, make), whole);
  EXPECT_EQ(train(Trial{.stages = 2, .recompute = Recompute::Blocks, .split = {"body.0"}}, make),
            whole);
}

/// Noise that the task adds to its input, and to its loss, is drawn for the micro-batch.
TEST(PipelineTest, DrawsWhatATaskDrawsForTheMicroBatch) {
  const auto train_noisily = [](const Trial& trial) {
    const testing::ScratchFolder cache;
    std::string digest;
    run_job(
        trial.instances, 2,
        [&](Options options) {
          options.gradient_accumulation(3).recompute(trial.recompute).cache(cache.path());
          DataLoader loader(options, pipeline_images(48), {.batch_size = 4, .workers = 1});
          Task task;
          task.input = [](const Fields& fields) {
            return fields["image"] + 0.1 * torch::randn_like(fields["image"]);
          };
          task.loss = [loss = task.loss](const at::Tensor& output, const Fields& fields) {
            return loss(torch::dropout(output, 0.2, true), fields);
          };
          TrainingModel model(many_blocks(), options, SGD(), task);
          for (auto& iteration : loader) model.step(iteration);
          if (options.world().instance() == 0) digest = model.digest();
        },
        trial.stages);
    return digest;
  };
  const auto whole = train_noisily(Trial{});
  EXPECT_EQ(train_noisily(Trial{.instances = 2}), whole);
  EXPECT_EQ(train_noisily(Trial{.stages = 3}), whole);
  EXPECT_EQ(train_noisily(Trial{.stages = 2, .recompute = Recompute::Blocks}), whole);
}

/// Else a device would wait for batches that can never come.
TEST(PipelineTest, RefusesALoaderOfOtherOptions) {
  auto options = alone(1);
  options.gradient_accumulation(8);
  DataLoader loader(options, pipeline_images(160), {.batch_size = 4});
  auto others = Options(options);
  TrainingModel staged(many_blocks(), others.devices_per_replica(2), SGD());
  testing::expect_error([&] { staged.step(*loader.begin()); }, ErrorKind::Options,
                        "a loader for 2 devices per replica, found one for 1");
  DataLoader staged_loader(others, pipeline_images(160), {.batch_size = 4});
  auto all_forward = Options(others);
  TrainingModel gpipe(many_blocks(), all_forward.pipeline(PipelineSchedule::GPipe), SGD());
  testing::expect_error([&] { gpipe.step(*staged_loader.begin()); }, ErrorKind::Options,
                        "(pipeline)");
}

TEST(PipelineTest, RefusesMoreMicroBatchesAtOnceThanALoaderHas) {
  auto options = alone(1);
  options.gradient_accumulation(100'000).devices_per_replica(2).pipeline(PipelineSchedule::GPipe);
  testing::expect_error([&] { DataLoader(options, pipeline_images(100'000), {}); },
                        ErrorKind::Options, "--pipeline 1f1b");
}

/// A later stage fails in the middle of a step; the others do not wait for it.
TEST(PipelineTest, TellsOfAnErrorInALaterStage) {
  auto options = alone(1);
  options.gradient_accumulation(8).devices_per_replica(2).begin_stage("body.2");
  DataLoader loader(options, pipeline_images(160), {.batch_size = 4});
  std::atomic<int> losses = 0;
  Task task;
  task.loss = [&, loss = task.loss](const at::Tensor& output, const Fields& fields) {
    if (++losses == 5) throw Error(ErrorKind::Data, "the fifth");
    return loss(output, fields);
  };
  TrainingModel model(many_blocks(), options, SGD(), task);
  testing::expect_error([&] { model.step(*loader.begin()); }, ErrorKind::Data, "the fifth");
}

/// A model that takes batches of four and no others is not asked for two.
TEST(PipelineTest, MeasuresAModelThatIsBoundToItsBatch) {
  struct BoundImpl : torch::nn::Module {
    BoundImpl() { layer = register_module("layer", torch::nn::Linear(3 * 64, 10)); }
    at::Tensor forward(const at::Tensor& x) { return layer(x.reshape({4, 3 * 64})); }
    torch::nn::Linear layer{nullptr};
  };
  const testing::ScratchFolder cache;
  auto options = alone(1);
  options.cache(cache.path());
  DataLoader loader(options, pipeline_images(16), {.batch_size = 4});
  TrainingModel model([] { return std::make_shared<BoundImpl>(); }, options, SGD());
  model.step(*loader.begin());
  EXPECT_GT(model.plan().stages.front().kept_bytes, 0);
}

TEST(PipelineTest, SharesADeviceAmongStagesWhereThereAreFewer) {
  const auto train_alone = [](int stages) {
    const testing::ScratchFolder cache;
    auto options = alone(2);
    if (stages > 1) options.devices_per_replica(stages);
    return train(options.gradient_accumulation(3).seed(5).cache(cache.path()), many_blocks);
  };
  const auto whole = train_alone(1);
  EXPECT_EQ(train_alone(3), whole);
  EXPECT_EQ(train_alone(4), whole);
}

struct Warned {
  std::vector<std::string> texts;
  plan::Plan plan;
  std::vector<bool> cached;
};

/// What a compilation says and decides, as often as it is asked for.
Warned compile(Options options, int times = 1) {
  Warned warned;
  for (int i = 0; i < times; ++i) {
    const auto set = pipeline_images(160);
    Options own = options;
    DataLoader loader(own, set, {.batch_size = 4, .workers = 0});
    TrainingModel model(many_blocks(), own, AdamW());
    model.tell([&](const std::string& text) { warned.texts.push_back(text); });
    warned.cached.push_back(model.compile(loader).is_cached);
    warned.plan = model.plan();
  }
  return warned;
}

TEST(PipelineTest, SaysHowIdleTooFewMicroBatchesLeaveIt) {
  const testing::ScratchFolder cache;
  auto options = alone(1);
  options.devices_per_replica(2).cache(cache.path());
  EXPECT_THAT(compile(options).texts, ::testing::ElementsAre(::testing::HasSubstr("50 %")));
  options.gradient_accumulation(8);
  EXPECT_THAT(compile(options).texts, ::testing::IsEmpty());
}

TEST(PipelineTest, MeasuresOnceAndKeepsThePlan) {
  const testing::ScratchFolder cache;
  auto options = alone(1);
  options.gradient_accumulation(4).begin_stage("body.2").cache(cache.path());
  const auto first = compile(options, 2);
  EXPECT_EQ(first.cached, (std::vector{false, true}));
  EXPECT_EQ(plan::split_of(first.plan), (plan::StageSplit{0, 3}));
  EXPECT_GT(first.plan.stages[1].backward_s, 0);
  // Whatever it depends on makes another one of it.
  EXPECT_EQ(compile(Options(options).gradient_accumulation(5)).cached, (std::vector{false}));
  EXPECT_EQ(compile(Options(options).pipeline(PipelineSchedule::GPipe)).cached,
            (std::vector{false}));
  EXPECT_EQ(compile(Options(options).recompute(Recompute::Stage)).cached, (std::vector{false}));
  EXPECT_EQ(compile(Options(options).seed(99)).cached, (std::vector{true}));
}

TEST(PipelineTest, GivesAPlanOnlyWhenThereIsOne) {
  const auto options = alone(1);
  const TrainingModel model(many_blocks(), options, SGD());
  testing::expect_error([&] { model.plan(); }, ErrorKind::Options, "nothing is decided");
}

/// How far the planned and the measured memory may differ, as a share of the measured memory.
constexpr double kForecastError = 0.15;

/// Bytes of tensors: as the plan says, and the peak while the model trains.
struct Foretold {
  std::int64_t planned = 0;
  std::int64_t found = 0;

  double ratio() const { return static_cast<double>(planned) / static_cast<double>(found); }
};
Foretold memory_of(const Trial& run) {
  const testing::ScratchFolder cache;
  auto options = alone(run.replicas);
  options.gradient_accumulation(run.micro_batches).pipeline(run.schedule).recompute(run.recompute);
  if (run.stages > 1) options.devices_per_replica(run.stages);
  options.cache(cache.path());
  const auto set = data::synthetic({.size = 1024, .height = 16, .width = 16, .seed = 3});
  DataLoader loader(options, set, {.batch_size = 16, .workers = 0});
  const auto net = nn::resnet20(10);
  for (auto& named : net->named_parameters()) {
    if (run.frozen && named.key().starts_with("layer")) named.value().set_requires_grad(false);
  }
  TrainingModel model(net, options, AdamW());
  const auto before = nn::KeptActivations::pool().use().bytes;
  model.compile(loader);
  auto& pool = nn::KeptActivations::pool();
  pool.restart_peak();
  Foretold foretold;
  for (const auto& device : model.plan().instances.front().devices) {
    foretold.planned += device.memory.total();
  }
  // Stages need most memory when they overlap. How they overlap depends on the machine's load, so
  // not every step reaches the peak. Every step counts towards the upper limit.
  constexpr int kLeastSteps = 8;
  constexpr int kMostSteps = 200;
  bool is_done = false;
  for (int steps = 0; !is_done;) {
    for (auto& iteration : loader) {
      model.step(iteration);
      ++steps;
      foretold.found =
          static_cast<std::int64_t>(pool.use().most_bytes) - static_cast<std::int64_t>(before);
      is_done =
          steps == kMostSteps || (steps >= kLeastSteps && foretold.ratio() <= 1 + kForecastError);
      if (is_done) break;
    }
  }
  EXPECT_EQ(model.plan().shared.total, model.memory().shared);
  EXPECT_EQ(model.plan().shared.weights, model.memory().weights);
  EXPECT_EQ(model.plan().shared.optimizer, model.memory().optimizer);
  return foretold;
}

TEST(PipelineTest, ForetellsTheMemoryOfTensorsWithin15Percent) {
  for (const auto& run :
       {Trial{.replicas = 1, .micro_batches = 4}, Trial{.replicas = 2, .micro_batches = 2},
        Trial{.stages = 2, .replicas = 1, .micro_batches = 4},
        Trial{.stages = 2, .schedule = PipelineSchedule::GPipe, .replicas = 1, .micro_batches = 4},
        Trial{.stages = 3, .replicas = 1, .micro_batches = 4},
        Trial{.stages = 2, .replicas = 2, .micro_batches = 4},
        Trial{.replicas = 2, .micro_batches = 2, .frozen = true},
        Trial{.recompute = Recompute::Blocks, .replicas = 1, .micro_batches = 4},
        Trial{.stages = 2,
        .schedule = PipelineSchedule::GPipe,
        .recompute = Recompute::Stage,
        .replicas = 1,
        .micro_batches = 4}}) {
    const auto memory = memory_of(run);
    std::cout << ::testing::PrintToString(run) << ": planned " << memory.planned << ", found "
              << memory.found << ", ratio " << memory.ratio() << "\n";
    EXPECT_NEAR(memory.ratio(), 1, kForecastError) << ::testing::PrintToString(run);
  }
}

}  // namespace
}  // namespace lockstep

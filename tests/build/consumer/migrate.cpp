// What docs/guides/migration.md has in C++: a function for each table, or two; what a table above
// has already is not repeated. All of it has to compile and link; what needs no training is run.
#include <lockstep/lockstep.h>
#include <torch/torch.h>

#include <iostream>

using namespace lockstep;

/// What collectives work on: a block of this instance's own, and room for one of each.
struct Values {
  explicit Values(int instances) : everybodys(mine.size() * static_cast<std::size_t>(instances)) {}

  std::vector<float> mine = std::vector<float>(4);
  std::vector<float> everybodys;
  comm::Buffer buffer = comm::buffer_of(mine);
  comm::Buffer block = comm::buffer_of(mine);
  comm::Buffer blocks = comm::buffer_of(everybodys);
  std::vector<comm::Buffer> buffers{buffer, blocks};
};

void from_popdist() {
  const auto world = World::init();
  const Values values(world.num_instances());
  const auto& [mine, everybodys, buffer, block, blocks, buffers] = values;
  const std::vector<int> instances{0, 1};
  const int replica = world.first_replica();
  const auto f = [](comm::Communicator& theirs) { theirs.barrier(); };

  world.launched();
  world.instance();
  world.num_instances();
  world.local_instance();
  world.num_replicas();
  world.num_local_replicas();
  world.first_replica();
  world.devices_per_replica();
  world.device_ids();
  world.device_ids(replica);
  world.on_instances({0}, f);
  world.all_reduce(buffer);
  world.all_gather(block, blocks);
  world.broadcast(buffer, 0);
  world.barrier();
  world.communicator().group(instances);
}

void from_poptorch_options() {
  auto options = Options();
  const int epochs = 5;
  if (!options.world().launched()) options.replicas(8);
  options.device_iterations(4);
  options.gradient_accumulation(8);
  options.reduction(Reduction::Sum);
  options.output(OutputMode::All);
  options.output(OutputMode::Final);
  options.output(OutputMode::Sum);
  options.output(OutputMode::EveryN, 10);
  options.seed(2022);
  options.cache("cache");
  options.precision(Precision::P16_16, Half::F16);
  options.loss_scale(1024);
  options.begin_stage("layer3.8");
  if (!options.world().launched()) options.devices_per_replica(2);
  options.pipeline(PipelineSchedule::OneForwardOneBackward);
  options.pipeline(PipelineSchedule::Sequential);
  options.recompute(Recompute::Stage);
  options.recompute(Recompute::Blocks);
  options.schedule({.kind = ScheduleKind::Cosine}, epochs);
}

void from_poptorch(const World& world, const Options& options, const at::Tensor& input) {
  const auto net = nn::resnet20(10);
  auto set = data::synthetic({.size = 1000});
  auto loader = DataLoader(options, set, {.batch_size = 64, .shuffle = true});
  const DataLoaderOptions loading{.mode = data::LoaderMode::Async, .workers = 4};
  auto test_loader = EvaluationLoader(options, set, {.batch_size = 64});
  auto model = TrainingModel(net, options, AdamW({.lr = 1e-3}));
  for (auto& batch : loader) model.step(batch);
  model.evaluate(test_loader);
  model.predict(input);
  model.compile(loader);
  model.save("net.safetensors");
  model.perf();
  const Values values(world.num_instances());
  const auto& buffers = values.buffers;
  world.all_reduce(buffers, comm::ReduceOp::Mean);
  const int epoch = 1;
  progress(loader, "[Epoch {:02}]", epoch);
}

void from_tensorflow(Options options, DataLoader& loader, EvaluationLoader& test_loader,
                     const at::Tensor& input, Callback& observer) {
  const auto local = LocalStrategy(options);
  auto strategy = DistributedStrategy(options);
  strategy.devices(16);
  options.devices_per_replica();
  const auto scope = strategy.scope();
  const auto x = torch::zeros({});
  const auto make = [] { return torch::nn::Linear(1, 1); };
  const auto v = scope.variable(x);
  scope.module(make);
  scope.on_read(x, comm::ReduceOp::Sum).read();
  scope.optimizer<torch::optim::SGD>(torch::optim::SGDOptions(0.1), v).step();
  options.reduction(Reduction::Sum);
  strategy.num_replicas_in_sync();
  const auto fn = [](const ReplicaContext& replica) { return replica.replica; };
  const auto values = strategy.run(fn);
  const auto op = comm::ReduceOp::Sum;
  strategy.reduce(op, values);
  const auto net = nn::resnet20(10);
  auto trainer = Trainer(net, options, AdamW({.lr = 1e-3}));
  const int epochs = 5;
  trainer.add(callbacks::checkpoint({.folder = "run1"}))
      .add(callbacks::early_stop({.patience = 5}))
      .add(callbacks::learning_rate({.kind = ScheduleKind::Cosine}, epochs))
      .add(callbacks::tensorboard("curves"))
      .add(callbacks::log(observer));
  trainer.fit(loader, {.epochs = 5});
  trainer.evaluate(test_loader);
  trainer.predict(input);
}

void from_pytorch_collectives() {
  const auto world = World::init();
  const Values values(world.num_instances());
  const auto& [mine, everybodys, buffer, block, blocks, buffers] = values;
  world.communicator().reduce_scatter(blocks, block);
  world.communicator().gather(block, blocks, 0);
  world.communicator().scatter(blocks, block, 0);
  world.communicator().async().barrier().wait();
  world.communicator().group({0, 1});
}

void from_pytorch(Options options, const data::DatasetPtr& set, Optimizer optimizer,
                  const std::string& path) {
  const auto net = nn::resnet20(10);
  options.gradient_accumulation(8);
  options.checkpoints({.folder = "run1"}).resume("auto");
  const int epochs = 5;
  options.schedule({.kind = ScheduleKind::Cosine}, epochs);
  optimizer.clip_norm(1.0);
  optimizer.group({.names = {"head.*"}, .lr = 1e-2});
  optimizer.average_weights(0.999);
  const auto script = nn::load_script("net.pt");
  auto model = TrainingModel(net, options, SGD({.lr = 0.1}));
  auto loader = DataLoader(options, set, {.batch_size = 64, .shuffle = true});
  for (int epoch : model.epochs(5)) {
    for (auto& batch : loader) std::cout << epoch << model.step(batch).loss;
  }
  model.save(path);
  model.load(path);
  model.save(path, WeightsKind::Average);
}

void from_horovod_collectives() {
  const auto world = World::init();
  const Values values(world.num_instances());
  const auto& [mine, everybodys, buffer, block, blocks, buffers] = values;
  const auto f = [](comm::Communicator& theirs) { theirs.barrier(); };
  world.num_local_instances();
  world.all_reduce(buffer, comm::ReduceOp::Mean);
  world.all_reduce(buffers, comm::ReduceOp::Mean);
  auto work = world.communicator().async().all_reduce(buffer);
  work.wait();
  world.on_instances({0, 1}, f);
}

void from_horovod(const Options& options, const Optimizer& optimizer) {
  const auto net = nn::resnet20(10);
  const auto model = TrainingModel(net, options, optimizer);
}

int main() {
  from_popdist();
  from_poptorch_options();
  from_pytorch_collectives();
  from_horovod_collectives();
}

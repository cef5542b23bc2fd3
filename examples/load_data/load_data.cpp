// Loads the images for the replicas of this instance. Each sample of an epoch goes to one replica
// of the job. Run it directly, or in four instances, with a dataset of your choice:
//   lockstep run --num-replicas 8 --num-instances 4 load_data [fashion-mnist|cifar10|…] [folder]
#include <fmt/format.h>
#include <lockstep/lockstep.h>

#include <cstdio>

int main(int argc, char** argv) try {
  namespace data = lockstep::data;
  const auto world = lockstep::World::init();
  const auto set = data::open_set(argc > 1 ? argv[1] : "synthetic", data::Split::Train,
                                  {.data_dir = argc > 2 ? argv[2] : ""});

  const data::TrainOrder order(set->size(), {.batch_size = 64, .replicas = world.num_replicas()},
                               {.seed = 2022});
  const auto pipeline =
      data::training_pipeline(data::Augment::Standard, set->fields().front(),
                              {.output = {lockstep::DataType::F32, data::Layout::ChannelsLast}});
  data::Loader loader(
      set, data::micro_batches(order, {world.first_replica(), world.num_local_replicas()}),
      {.pipeline = pipeline});

  double sum = 0;
  std::int64_t samples = 0;
  for (auto& batch : loader.epoch(0)) {
    samples += batch.size();
    sum += batch.values<float>("image")[0];
  }
  fmt::print("instance {}: {} batches, {} of {} samples, mean of first pixels {:.4f}\n",
             world.instance(), loader.batches_per_epoch(), samples, set->size(),
             sum / static_cast<double>(loader.batches_per_epoch()));
} catch (const lockstep::Error& error) {
  std::fputs(describe(error).c_str(), stderr);
  return exit_code(error.kind());
}

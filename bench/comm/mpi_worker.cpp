// A process that `lockstep bench comm --against mpi` measures: Open MPI as mpirun sets it up.

#include <mpi.h>

#include "bench/comm/worker.h"

namespace {

using lockstep::bench::Collectives;

/// Failures are MPI's own business: by default it prints what went wrong and ends the job.
class MpiCollectives final : public Collectives {
 public:
  MpiCollectives() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }

  void all_reduce(std::span<float> values) override {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), count(values), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }

  std::span<const float> reduce_scatter(std::span<float> blocks, std::span<float> block) override {
    MPI_Reduce_scatter_block(blocks.data(), block.data(), count(block), MPI_FLOAT, MPI_SUM,
                             MPI_COMM_WORLD);
    return block;
  }

  void all_gather(std::span<const float> block, std::span<float> blocks) override {
    MPI_Allgather(block.data(), count(block), MPI_FLOAT, blocks.data(), count(block), MPI_FLOAT,
                  MPI_COMM_WORLD);
  }

  void broadcast(std::span<float> values) override {
    MPI_Bcast(values.data(), count(values), MPI_FLOAT, 0, MPI_COMM_WORLD);
  }

 private:
  static int count(std::span<const float> values) { return static_cast<int>(values.size()); }

  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const std::span<char* const> arguments(argv, static_cast<std::size_t>(argc));
  const int code = lockstep::bench::worker_main(arguments, [](const std::string& folder) {
    MpiCollectives system;
    lockstep::bench::serve(system, folder);
  });
  // After a failure the others do not come to the end: mpirun sees the code and ends them.
  if (code == 0) MPI_Finalize();
  return code;
}

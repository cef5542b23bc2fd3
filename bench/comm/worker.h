#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace lockstep::bench {

/// One instance of a system whose collectives are measured. All values are f32, all reductions are
/// sums. A function may throw anything: the worker then ends.
class Collectives {
 public:
  virtual ~Collectives() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual void barrier() = 0;
  virtual void all_reduce(std::span<float> values) = 0;
  /// Returns the sum of this rank's blocks: in `block`, or in a part of `blocks` for a system that
  /// works in place, so that the time of such a system does not include a copy.
  virtual std::span<const float> reduce_scatter(std::span<float> blocks,
                                                std::span<float> block) = 0;
  virtual void all_gather(std::span<const float> block, std::span<float> blocks) = 0;
  /// From rank 0.
  virtual void broadcast(std::span<float> values) = 0;
};

/// The input of a rank at a position of its buffer in a repetition. Inputs are small whole numbers,
/// so that sums are exact. They differ between neighbouring ranks, positions and repetitions, so
/// that a swapped, repeated or old block is detected.
float input_value(int rank, std::int64_t position, std::int64_t repetition);

/// Answers the requests that come over a socket until the driver closes it. Between requests the
/// worker sleeps in the kernel, outside the measured system, so that it uses no processor time.
void answer_requests(Collectives& system, int socket);

/// Connects to the driver of the job with this folder, and answers its requests.
void serve(Collectives& system, const std::string& folder);

/// The main function of a worker that is a program of its own. Its argument is the job's folder.
/// Prints errors. Returns the exit code.
int worker_main(std::span<char* const> arguments,
                const std::function<void(const std::string& folder)>& work);

}  // namespace lockstep::bench

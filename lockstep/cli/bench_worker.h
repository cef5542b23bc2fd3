#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace lockstep::cli {

/// One instance of a system whose collectives are measured; all values are f32, all sums are sums.
/// Errors: whatever the system throws; the worker then ends.
class Contender {
 public:
  virtual ~Contender() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual void barrier() = 0;
  virtual void all_reduce(std::span<float> values) = 0;
  /// Returns where the sum of this rank's blocks is: `block`, or a part of `blocks` for a system
  /// that works in place, so that no copy is charged to it.
  virtual std::span<const float> reduce_scatter(std::span<float> blocks,
                                                std::span<float> block) = 0;
  virtual void all_gather(std::span<const float> block, std::span<float> blocks) = 0;
  /// From rank 0.
  virtual void broadcast(std::span<float> values) = 0;
};

/// What rank `rank` brings at a position of its buffer in a repetition: a small whole number, so
/// that sums are exact, and another one at each rank, position and repetition near each other, so
/// that a swapped, repeated or old block cannot pass.
float brought_value(int rank, std::int64_t position, std::int64_t repetition);

/// Answers the requests that come over a socket until its other side is closed. Between requests it
/// sleeps in the kernel, outside of the system that it measures, so that idle workers cost nothing.
void answer_requests(Contender& contender, int socket);

/// Connects to the driver of the job with this folder, and answers its requests.
void serve(Contender& contender, const std::string& folder);

/// The main function of a worker that is a program of its own, called with the job's folder.
/// Returns the exit code; errors are printed.
int worker_main(std::span<char* const> arguments,
                const std::function<void(const std::string& folder)>& work);

}  // namespace lockstep::cli

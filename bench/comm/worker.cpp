#include "bench/comm/worker.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <vector>

#include "bench/comm/protocol.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// A buffer of f32, aligned like a tensor.
class Values {
 public:
  Values() = default;
  explicit Values(std::int64_t count) : count_(static_cast<std::size_t>(count)) {
    constexpr std::size_t kAlignment = 64;
    const auto bytes = count_ * sizeof(float);
    const auto rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    values_.reset(static_cast<float*>(std::aligned_alloc(kAlignment, rounded)));
    if (!values_ && bytes > 0) throw std::bad_alloc();
  }

  std::span<float> all() const { return {values_.get(), count_}; }

 private:
  std::unique_ptr<float, decltype(&std::free)> values_{nullptr, &std::free};
  std::size_t count_ = 0;
};

/// The buffers of the current size, and the number of repetitions so far.
class Worker {
 public:
  explicit Worker(Collectives& system) : system_(system) {}

  Verdict verify(const Request& request) {
    prepare(request);
    write_buffers();
    return check(perform());
  }

  std::vector<Nanoseconds> measure(const Request& request) {
    prepare(request);
    std::vector<Nanoseconds> times;
    for (int i = 0; i < request.repetitions; ++i) times.push_back(measure_once());
    return times;
  }

 private:
  void prepare(const Request& request) {
    if (cell_.collective == request.collective && cell_.bytes == request.bytes) return;
    cell_.collective = request.collective;
    cell_.bytes = request.bytes;
    const auto counts = element_counts(cell_);
    // Free the buffers of the previous size first: both sizes may not fit into memory.
    input_ = Values();
    output_ = Values();
    input_ = Values(counts.input);
    output_ = Values(counts.output);
  }

  Nanoseconds measure_once() {
    write_buffers();
    system_.barrier();
    const auto begin = Clock::now();
    perform();
    const auto time = std::chrono::nanoseconds(Clock::now() - begin).count();
    // If instances share a core, an instance that has finished must not use the core to write its
    // next buffer while the others are still measured.
    system_.barrier();
    return time;
  }

  /// Writes every value again, so that no buffer is in a cache and no old result is accepted.
  void write_buffers() {
    ++repetition_;
    const auto input = input_.all();
    for (std::size_t i = 0; i < input.size(); ++i) {
      input[i] = input_value(system_.rank(), static_cast<std::int64_t>(i), repetition_);
    }
    const auto output = output_.all();
    std::fill(output.begin(), output.end(), -1.0F);
  }

  /// Runs the collective. Returns its result.
  std::span<const float> perform() {
    switch (cell_.collective) {
      case Collective::AllReduce:
        system_.all_reduce(input_.all());
        return input_.all();
      case Collective::ReduceScatter:
        return system_.reduce_scatter(input_.all(), output_.all());
      case Collective::AllGather:
        system_.all_gather(input_.all(), output_.all());
        return output_.all();
      case Collective::Broadcast:
        system_.broadcast(input_.all());
        return input_.all();
    }
    return {};
  }

  Verdict check(std::span<const float> result) const {
    for (std::size_t i = 0; i < result.size(); ++i) {
      const auto position = static_cast<std::int64_t>(i);
      const float expected = expected_value(position, static_cast<std::int64_t>(result.size()));
      if (result[i] != expected) return {position, expected, result[i]};
    }
    return {};
  }

  float expected_value(std::int64_t position, std::int64_t result_size) const {
    switch (cell_.collective) {
      case Collective::AllReduce:
        return sum_over_ranks(position);
      case Collective::ReduceScatter:
        return sum_over_ranks(system_.rank() * result_size + position);
      case Collective::AllGather: {
        const auto block = result_size / system_.size();
        return input_value(static_cast<int>(position / block), position % block, repetition_);
      }
      case Collective::Broadcast:
        return input_value(0, position, repetition_);
    }
    return 0;
  }

  float sum_over_ranks(std::int64_t position) const {
    float sum = 0;
    for (int rank = 0; rank < system_.size(); ++rank) {
      sum += input_value(rank, position, repetition_);
    }
    return sum;
  }

  Collectives& system_;
  Cell cell_{.instances = system_.size()};
  std::int64_t repetition_ = 0;
  Values input_;
  Values output_;
};

}  // namespace

float input_value(int rank, std::int64_t position, std::int64_t repetition) {
  // Products with large odd numbers spread neighbours over the upper bits. Of these, 12 are kept:
  // a sum over a thousand ranks still has less than 24 bits.
  const auto mixed = static_cast<std::uint32_t>(position) * 0x9E3779B1U +
                     static_cast<std::uint32_t>(rank) * 0x85EBCA77U +
                     static_cast<std::uint32_t>(repetition) * 0xC2B2AE3DU;
  return static_cast<float>(static_cast<std::int32_t>(mixed >> 20));
}

void answer_requests(Collectives& system, int socket) {
  Worker worker(system);
  Request request;
  bool heard = true;
  while (heard && receive_packet(socket, bytes_of(request)) == sizeof request) {
    if (request.task == Request::Task::Verify) {
      auto verdict = worker.verify(request);
      heard = send_packet(socket, bytes_of(verdict));
    } else {
      const auto times = worker.measure(request);
      heard = send_packet(socket, std::as_bytes(std::span(times)));
    }
  }
}

void serve(Collectives& system, const std::string& folder) {
  const UniqueFd driver(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!driver) throw io_error("bench comm: socket");
  const auto address = driver_address(folder);
  if (::connect(driver.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw io_error("bench comm: connect to the driver in " + folder);
  }
  std::int32_t rank = system.rank();
  if (send_packet(driver.get(), bytes_of(rank))) answer_requests(system, driver.get());
}

int worker_main(std::span<char* const> arguments,
                const std::function<void(const std::string& folder)>& work) {
  if (arguments.size() != 2) {
    fmt::print(stderr, "lockstep: this program is started by 'lockstep bench comm'\n");
    return exit_code(ErrorKind::Options);
  }
  try {
    work(arguments[1]);
    return 0;
  } catch (const Error& error) {
    std::fputs(describe(error).c_str(), stderr);
    return exit_code(error.kind());
  } catch (const std::exception& error) {
    fmt::print(stderr, "lockstep: {}: {}\n", arguments[0], error.what());
    return exit_code(ErrorKind::Io);
  }
}

}  // namespace lockstep::bench

#include "lockstep/comm/local/local_group.h"

#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/comm/host/host_transport.h"

namespace lockstep::comm::local {

LocalGroup::LocalGroup(int size, WaitOptions options, std::shared_ptr<host::KeptMemory> kept)
    : size_(size),
      options_(std::move(options)),
      memory_(host::JobMemory::create({.num_instances = size, .num_local_instances = size})),
      kept_(std::move(kept)) {}

std::unique_ptr<Transport> LocalGroup::join(int rank) {
  return std::make_unique<host::HostTransport>(
      std::make_shared<host::Member>(memory_, rank, options_, kept_), host::all_instances(size_));
}

void run_threads(int size, const std::function<void(Communicator&)>& function,
                 const WaitOptions& options, std::shared_ptr<host::KeptMemory> kept) {
  LocalGroup group(size, options, std::move(kept));
  run_joined(
      size, [&](int rank) { return group.join(rank); }, function);
}

void run_joined(int size, const std::function<std::unique_ptr<Transport>(int)>& join,
                const std::function<void(Communicator&)>& function) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Communicator communicator(join(rank));
        function(communicator);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();

  std::exception_ptr victim;
  for (const auto& error : errors) {
    if (!error) continue;
    try {
      std::rethrow_exception(error);
    } catch (const Error& caught) {
      if (caught.kind() != ErrorKind::PeerLost) throw;
      victim = error;
    }
  }
  if (victim) std::rethrow_exception(victim);
}

}  // namespace lockstep::comm::local

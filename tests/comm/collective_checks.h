#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/operation.h"

/// Collectives against a reference that is written as plainly as possible. The same checks run on
/// threads (in the tests) and in processes (in `comm_worker`).
namespace lockstep::testing {

struct CollectiveCase {
  comm::OperationKind kind = comm::OperationKind::AllReduce;
  DataType type = DataType::F32;
  comm::ReduceOp op = comm::ReduceOp::Sum;
  std::int64_t count = 1;
  int root = 0;
  std::uint64_t seed = 0;
};

std::string to_string(const CollectiveCase& collective);

/// Every operation with every type and operator that it takes, in sizes that need one chunk and
/// several, and none.
std::vector<CollectiveCase> all_collectives();

/// Runs one on data that differs by instance and place. Throws, saying where, unless every bit is
/// as expected on this instance.
void check_collective(comm::Communicator& communicator, const CollectiveCase& collective);

/// Elements that only leaf number `leaf` has.
std::vector<std::byte> elements_of(DataType type, std::int64_t count, std::uint64_t seed, int leaf);

/// What leaves 0..num_leaves-1 come to, by the definition of the tree.
std::vector<std::byte> reduced(DataType type, comm::ReduceOp op, std::int64_t count,
                               std::uint64_t seed, int num_leaves);

/// Reduces `num_leaves` leaves that are dealt out over the instances as replicas are, and compares
/// with `reduced`.
void check_leaves(comm::Communicator& communicator, DataType type, comm::ReduceOp op,
                  std::int64_t count, int num_leaves);

/// Reduces nodes that are leaves, dealt out in turns, between leaders of hosts.
void check_nodes(comm::Communicator& leaders, DataType type, std::int64_t count, int num_leaves);

/// Runs `rounds` collectives that the seed chooses, some of them asynchronous or in groups.
void check_mixture(comm::Communicator& communicator, int rounds, std::uint64_t seed);

}  // namespace lockstep::testing

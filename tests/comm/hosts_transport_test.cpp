#include "lockstep/comm/hosts/hosts_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <mutex>

#include "lockstep/base/error.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/ordered_reduction.h"
#include "tests/comm/collective_checks.h"
#include "tests/comm/hosts_group.h"

namespace lockstep::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostsGroup;
using testing::run_hosts;

struct Case {
  std::string name;
  HostsGroup::Layout layout;
  friend void PrintTo(const Case& value, std::ostream* out) { *out << testing::to_string(value.layout); }
};

class HostsCollectiveTest : public ::testing::TestWithParam<Case> {};

TEST_P(HostsCollectiveTest, GivesTheReferencesBitsForEachOperationAndType) {
  run_hosts(GetParam().layout, [](Communicator& communicator) {
    for (auto collective : testing::all_collectives()) {
      testing::check_collective(communicator, collective);
      collective.root = communicator.size() - 1;
      if (collective.kind == OperationKind::Broadcast || collective.kind == OperationKind::Gather ||
          collective.kind == OperationKind::Scatter) {
        testing::check_collective(communicator, collective);
      }
    }
  });
}

TEST_P(HostsCollectiveTest, GivesTheSameBitsForTheSameLeavesHoweverTheyAreDealtOut) {
  run_hosts(GetParam().layout, [](Communicator& communicator) {
    for (const auto type : {DataType::F16, DataType::BF16, DataType::F32, DataType::F64}) {
      for (const auto op : {ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Product}) {
        for (const int leaves : {8, 9, 13, 16}) {
          testing::check_leaves(communicator, type, op, 30001, leaves);
        }
      }
    }
  });
}

TEST_P(HostsCollectiveTest, KeepsUpInAMixtureOfAll) {
  run_hosts(GetParam().layout,
            [](Communicator& communicator) { testing::check_mixture(communicator, 200, 5); });
}

INSTANTIATE_TEST_SUITE_P(Layouts, HostsCollectiveTest,
                         ::testing::Values(Case{"OneAndOne", {{0}, {1}}},
                                           Case{"TwoAndTwo", {{0, 1}, {2, 3}}},
                                           Case{"OneAndThree", {{0}, {1, 2, 3}}},
                                           Case{"ThreeTimesTwo", {{0, 1}, {2, 3}, {4, 5}}},
                                           Case{"Interleaved", {{0, 2}, {1, 3}}},
                                           Case{"InterleavedUnevenly", {{0, 3, 4}, {1}, {2, 5}}}),
                         [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace lockstep::comm

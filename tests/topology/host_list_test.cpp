#include "lockstep/topology/host_list.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> to_strings(const std::vector<Host>& hosts) {
  std::vector<std::string> texts;
  for (const auto& host : hosts) {
    texts.push_back(host.slots ? fmt::format("{}:{}", host.name, *host.slots) : host.name);
  }
  return texts;
}

TEST(HostListTest, ReadsNamesSlotsAndRanges) {
  EXPECT_THAT(to_strings(parse_host_list("a,b:4,node[0-2,4]")),
              ElementsAre("a", "b:4", "node0", "node1", "node2", "node4"));
}

TEST(HostListTest, KeepsLeadingZerosAndExpandsSeveralBrackets) {
  EXPECT_THAT(to_strings(parse_host_list("r[08-10]n[1,3]:2")),
              ElementsAre("r08n1:2", "r08n3:2", "r09n1:2", "r09n3:2", "r10n1:2", "r10n3:2"));
}

TEST(HostListTest, AddsTheSlotsOfAHostThatIsNamedAgain) {
  EXPECT_THAT(to_strings(parse_host_list("a:2,b,a:3,b,b")), ElementsAre("a:5", "b:3"));
}

struct BadList {
  const char* list;
  const char* complaint;
  friend std::ostream& operator<<(std::ostream& out, const BadList& bad) { return out << bad.list; }
};

class BadHostListTest : public ::testing::TestWithParam<BadList> {};

TEST_P(BadHostListTest, IsRefusedWithTheEntryAndTheReason) {
  try {
    parse_host_list(GetParam().list);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Options);
    EXPECT_THAT(error.what(), HasSubstr(GetParam().complaint));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BadHostListTest,
    ::testing::Values(BadList{"", "expected a host name"}, BadList{"a,,b", "expected a host name"},
                      BadList{"a:0", "'0' is not a number of instances of at least 1"},
                      BadList{"a:many", "'many' is not a number of instances"},
                      BadList{"node[0-2", "'[' without ']'"}, BadList{"node0]", "']' without '['"},
                      BadList{"node[2-0]", "'2-0' is neither a number nor an ascending range"},
                      BadList{"node[x]", "'x' is neither a number nor an ascending range"},
                      BadList{"node[0-99999999]", "is more than 10000 hosts"},
                      BadList{"r[0-9999]n[0-9999]", "more than 10000 hosts"},
                      BadList{"-oProxyCommand=x", "expected a host name"},
                      BadList{"a b", "expected a host name"}));

TEST(HostfileTest, ReadsCommentsAndBothWaysToWriteSlots) {
  EXPECT_THAT(to_strings(parse_hostfile("# cluster\n\na\tslots=4 max_slots=8\nb:2  # two\nn[1-2]\n",
                                        "hosts")),
              ElementsAre("a:4", "b:2", "n1", "n2"));
}

TEST(HostfileTest, NamesFileAndLineOfAMistake) {
  try {
    parse_hostfile("a\nb:x\n", "my.hosts");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("my.hosts:2: host list: 'b:x'"));
  }
}

TEST(HostfileTest, RefusesAFileWithoutHosts) {
  EXPECT_THROW(parse_hostfile("# nobody\n", "hosts"), Error);
}

}  // namespace
}  // namespace lockstep::topology

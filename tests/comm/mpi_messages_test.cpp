#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/comm/mpi/control_message.h"
#include "lockstep/comm/mpi/places.h"

namespace lockstep::comm::mpi {
namespace {

using hosts::Note;

std::string map_text(const std::vector<Place>& ranks) {
  std::string text;
  for (const auto& host : host_map_of(ranks).hosts) {
    text += host.name + ":";
    for (const int instance : host.instances) text += " " + std::to_string(instance);
    text += "\n";
  }
  return text;
}

void expect_refusal(const std::vector<Place>& ranks, const std::string& message) {
  try {
    host_map_of(ranks);
    ADD_FAILURE() << "expected: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Options);
    EXPECT_EQ(std::string(error.what()), message);
    EXPECT_NE(error.hint(), "");
  }
}

TEST(MpiMessagesTest, NotesComeBackAsTheyWere) {
  const Note note{.kind = Note::Kind::Failed,
                  .host = 99,
                  .quiet_for = std::chrono::nanoseconds(-1),
                  .error = Error(ErrorKind::Data, "what\nwas found", "a hint")};
  const auto back = std::get<Note>(message_of(to_bytes(ControlMessage(note)), 3));
  EXPECT_EQ(back.kind, Note::Kind::Failed);
  EXPECT_EQ(back.host, 3);  // as MPI says, not as the note does
  EXPECT_EQ(back.quiet_for.count(), -1);
  EXPECT_EQ(back.error->kind(), ErrorKind::Data);
  EXPECT_STREQ(back.error->what(), "what\nwas found");
  EXPECT_EQ(back.error->hint(), "a hint");
}

TEST(MpiMessagesTest, SignsOfLifeCarryNoError) {
  const Note note{.kind = Note::Kind::Alive, .quiet_for = std::chrono::milliseconds(1234567)};
  const auto back = std::get<Note>(message_of(to_bytes(ControlMessage(note)), 1));
  EXPECT_EQ(back.kind, Note::Kind::Alive);
  EXPECT_EQ(back.quiet_for, std::chrono::milliseconds(1234567));
  EXPECT_FALSE(back.error);
}

TEST(MpiMessagesTest, TagsComeBackAsTheyWere) {
  const FabricTag tag{.fabric = 0xfedcba9876543210, .tag = 12};
  const auto back = std::get<FabricTag>(message_of(to_bytes(ControlMessage(tag)), 1));
  EXPECT_EQ(back.fabric, tag.fabric);
  EXPECT_EQ(back.tag, 12);
}

TEST(MpiMessagesTest, CutsLongTextsBetweenCharacters) {
  std::string text = "x";
  for (int i = 0; i < 20000; ++i) text += "é";
  const Note note{.kind = Note::Kind::Failed, .error = Error(ErrorKind::Io, text, text)};
  const auto bytes = to_bytes(ControlMessage(note));
  EXPECT_LE(bytes.size(), kLongestControlMessage);
  const auto back = std::get<Note>(message_of(bytes, 1));
  const std::string cut = back.error->what();
  EXPECT_EQ(cut, text.substr(0, cut.size()));
  EXPECT_EQ(cut.size() % 2, 1U);  // whole characters of two bytes each
  EXPECT_GT(cut.size(), 7000U);
}

TEST(MpiMessagesTest, RefusesBytesThatEndEarly) {
  const auto bytes = to_bytes(ControlMessage(FabricTag{1, 2}));
  EXPECT_THROW(message_of(std::string_view(bytes).substr(0, bytes.size() - 1), 1), Error);
}

TEST(MpiMessagesTest, PlacesComeBackAsTheyWere) {
  const auto back = place_of(to_bytes(Place{5, 12, {3, 5, 9}, "node-7"}));
  EXPECT_EQ(back.instance, 5);
  EXPECT_EQ(back.num_instances, 12);
  EXPECT_THAT(back.local_instances, ::testing::ElementsAre(3, 5, 9));
  EXPECT_EQ(back.host_name, "node-7");
}

TEST(MpiMessagesTest, OrdersHostsByTheirLeaders) {
  EXPECT_EQ(
      map_text(
          {{1, 4, {1, 3}, "b"}, {0, 4, {0, 2}, "a"}, {2, 4, {0, 2}, "a"}, {3, 4, {1, 3}, "b"}}),
      "a: 0 2\n"
      "b: 1 3\n");
}

TEST(MpiMessagesTest, TakesLeadersAlone) {
  EXPECT_EQ(map_text({{4, 6, {4, 5}, "b"}, {0, 6, {0, 1, 2, 3}, "a"}}),
            "a: 0 1 2 3\n"
            "b: 4 5\n");
}

TEST(MpiMessagesTest, RefusesRanksThatAreNotTheJob) {
  expect_refusal({{4, 6, {4, 5}, "b"}}, "mpi: expected 6 instances in the MPI job, found 2 (4-5)");
  expect_refusal({{0, 4, {0, 1}, "a"}}, "mpi: expected 4 instances in the MPI job, found 2 (0-1)");
  expect_refusal({{0, 2, {0}, "a"}, {1, 3, {1}, "b"}},
                 "mpi: expected the ranks of one job, found instance 0 of 2 and instance 1 of 3");
  expect_refusal({{0, 2, {0}, "a"}, {0, 2, {0}, "b"}},
                 "mpi: expected one rank of the MPI job per instance, found two that are "
                 "instance 0");
  expect_refusal({{1, 2, {0, 1}, "a"}},
                 "mpi: expected instance 0, the first on a, in the MPI job, found others of its "
                 "host alone");
  expect_refusal({{0, 3, {0, 1}, "a"}, {1, 3, {0, 1, 2}, "a"}},
                 "mpi: expected the instances on the host of instance 0 to agree on who they are, "
                 "found 0-1 and 0-2");
  expect_refusal({{0, 2, {0, 1}, "a"}, {1, 2, {1}, "b"}},
                 "mpi: expected each instance on one host, found 1 on two");
}

}  // namespace
}  // namespace lockstep::comm::mpi

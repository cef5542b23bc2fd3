#include "lockstep/comm/tcp/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>

#include "lockstep/base/error.h"
#include "lockstep/comm/tcp/secret.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::comm::tcp {
namespace {

using Bytes = std::vector<std::byte>;

Payload some_payload() {
  Payload payload;
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i * 7 + 1);
  return payload;
}

/// Carries messages until neither side has anything to say, and returns what the client said.
Bytes talk(ServerHandshake& server, ClientHandshake& client) {
  Bytes said;
  for (int round = 0; round < 4; ++round) {
    client.feed(server.take_output());
    const auto from_client = client.take_output();
    said.insert(said.end(), from_client.begin(), from_client.end());
    server.feed(from_client);
    if (round == 0 && server.is_client_proven()) server.accept();
  }
  return said;
}

TEST(HandshakeTest, ProvesBothSidesToEachOtherAndSaysWhoTheClientIs) {
  const auto secret = Secret::random();
  ServerHandshake server(secret);
  ClientHandshake client(secret, some_payload());
  talk(server, client);
  EXPECT_EQ(server.state(), HandshakeState::Done);
  EXPECT_EQ(client.state(), HandshakeState::Done);
  EXPECT_EQ(server.payload(), some_payload());
}

TEST(HandshakeTest, TakesBytesInAnyPieces) {
  const auto secret = Secret::random();
  ServerHandshake server(secret);
  ClientHandshake client(secret, some_payload());
  for (const auto byte : server.take_output()) client.feed({&byte, 1});
  for (const auto byte : client.take_output()) server.feed({&byte, 1});
  ASSERT_TRUE(server.is_client_proven());
  server.accept();
  for (const auto byte : server.take_output()) client.feed({&byte, 1});
  EXPECT_EQ(client.state(), HandshakeState::Done);
  EXPECT_EQ(server.state(), HandshakeState::Waiting) << "for the client's last word";
  server.feed(client.take_output());
  EXPECT_EQ(server.state(), HandshakeState::Done);
}

TEST(HandshakeTest, LeavesWhatFollowsItWhereItIs) {
  const auto secret = Secret::random();
  ServerHandshake server(secret);
  ClientHandshake client(secret, some_payload());
  EXPECT_EQ(server.wanted(), 128U);
  EXPECT_EQ(client.wanted(), 40U);
  talk(server, client);
  EXPECT_EQ(server.wanted(), 0U);
  EXPECT_EQ(client.wanted(), 0U);
}

TEST(HandshakeTest, RefusesAClientWithAnotherSecret) {
  ServerHandshake server(Secret::random());
  ClientHandshake client(Secret::random(), some_payload());
  talk(server, client);
  EXPECT_EQ(server.state(), HandshakeState::Refused);
  EXPECT_FALSE(server.is_client_proven());
  EXPECT_TRUE(server.take_output().empty()) << "not a word to a stranger";
}

TEST(HandshakeTest, RefusesAServerWithAnotherSecret) {
  const auto secret = Secret::random();
  ServerHandshake server(secret);
  ClientHandshake client(secret, some_payload());
  ServerHandshake other(Secret::random());
  client.feed(server.take_output());
  auto answer = other.take_output();
  client.feed(std::span(answer).first(32));
  EXPECT_EQ(client.state(), HandshakeState::Refused);
}

TEST(HandshakeTest, RefusesWhatWasSeenOnAnotherConnection) {
  const auto secret = Secret::random();
  ServerHandshake server(secret);
  ClientHandshake client(secret, some_payload());
  const auto seen = talk(server, client);
  ServerHandshake again(secret);
  again.feed(seen);
  EXPECT_EQ(again.state(), HandshakeState::Refused);
}

TEST(HandshakeTest, RefusesItsOwnWordsSentBack) {
  const auto secret = Secret::random();
  ClientHandshake client(secret, some_payload());
  ServerHandshake server(secret);
  client.feed(server.take_output());
  const auto words = client.take_output();
  client.feed(std::span(words).last(32));  // its own MAC
  EXPECT_EQ(client.state(), HandshakeState::Refused);
}

TEST(HandshakeTest, RefusesEachSingleChangedBit) {
  const auto secret = Secret::random();
  for (std::size_t bit = 0; bit < 128 * 8; ++bit) {
    ServerHandshake server(secret);
    ClientHandshake client(secret, some_payload());
    client.feed(server.take_output());
    auto answer = client.take_output();
    answer[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    server.feed(answer);
    EXPECT_EQ(server.state(), HandshakeState::Refused) << bit;
  }
}

TEST(HandshakeTest, RefusesRandomBytesOnBothSides) {
  std::mt19937 random(3);
  const auto secret = Secret::random();
  for (int round = 0; round < 2000; ++round) {
    Bytes noise(random() % 300);
    for (auto& byte : noise) byte = static_cast<std::byte>(random());
    ServerHandshake server(secret);
    server.feed(noise);
    EXPECT_NE(server.state(), HandshakeState::Done);
    EXPECT_FALSE(server.is_client_proven());
    ClientHandshake client(secret, some_payload());
    client.feed(noise);
    EXPECT_NE(client.state(), HandshakeState::Done);
  }
}

TEST(SecretTest, IsAFileThatItsOwnerAloneCanRead) {
  const testing::ScratchFolder folder;
  folder.write("secret", "old", 0644);
  const auto secret = Secret::random();
  secret.write(folder.path());
  struct stat status {};
  ASSERT_EQ(::stat((folder.path() + "/secret").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  EXPECT_EQ(Secret::read(folder.path()).to_text(), secret.to_text());
}

TEST(SecretTest, IsSixtyFourDigitsThatDifferEachTime) {
  const auto text = Secret::random().to_text();
  EXPECT_EQ(text.size(), 64U);
  EXPECT_NE(text, Secret::random().to_text());
  EXPECT_EQ(Secret::parse(text)->to_text(), text);
  EXPECT_FALSE(Secret::parse(text + "0"));
  EXPECT_FALSE(Secret::parse(text.substr(1)));
  EXPECT_FALSE(Secret::parse("x" + text.substr(1)));
  EXPECT_FALSE(Secret::parse(""));
}

TEST(SecretTest, NamesTheFileThatHoldsNone) {
  const testing::ScratchFolder folder;
  testing::expect_error([&] { Secret::read(folder.path()); }, ErrorKind::Io,
                        folder.path() + "/secret");
  folder.write("secret", "hello");
  testing::expect_error([&] { Secret::read(folder.path()); }, ErrorKind::Data,
                        "expected 64 hexadecimal digits, found something else");
}

}  // namespace
}  // namespace lockstep::comm::tcp

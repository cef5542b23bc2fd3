#include "lockstep/checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <cmath>
#include <limits>

#include "lockstep/base/version.h"
#include "tests/support/errors.h"

namespace lockstep::checkpoint {
namespace {

using testing::expect_error;

Manifest made_manifest() {
  return {.position = {500, 3, 20, 2},
          .options = {{"model", "resnet20"}, {"lr", "0.05"}, {"batch-size", "16"}},
          .weights = "0123456789abcdef",
          .metrics = {{"acc", 0.1}, {"loss", -0.25}},
          .reason = "interval",
          .job = "5f3a",
          .written = "2026-11-15T21:40:07Z",
          .files = {{"weights.safetensors", 1234, "00112233445566778899aabbccddeeff"},
                    {"state.safetensors", 0, "ffeeddccbbaa99887766554433221100"}}};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

/// The text with the checksum that it should have, so that what is behind it is looked at.
std::string with_checksum(std::string text) {
  const auto at = text.size() - 20;
  text.replace(at, 16, std::string(16, '0'));
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
  return text.replace(at, 16, digits);
}

void expect_refused(const std::string& from, const std::string& to, const std::string& message) {
  const auto text = with_checksum(replaced(to_json(made_manifest()), from, to));
  expect_error([&] { parse_manifest(text, "m"); }, ErrorKind::Data, message);
}

TEST(ManifestTest, IsTextThatPeopleCanRead) {
  const auto text = to_json(made_manifest());
  const auto checksum = text.substr(text.size() - 20, 16);
  EXPECT_EQ(text, R"({
  "lockstep_checkpoint": 1,
  "position": {
    "step": 500,
    "epoch": 3,
    "epoch_step": 20,
    "finished_epochs": 2
  },
  "options": {
    "model": "resnet20",
    "lr": "0.05",
    "batch-size": "16"
  },
  "weights": "0123456789abcdef",
  "metrics": {
    "acc": 0.1,
    "loss": -0.25
  },
  "reason": "interval",
  "job": "5f3a",
  "written": "2026-11-15T21:40:07Z",
  "lockstep": ")" + std::string(version()) +
                      R"(",
  "files": {
    "weights.safetensors": {
      "bytes": 1234,
      "xxh3_128": "00112233445566778899aabbccddeeff"
    },
    "state.safetensors": {
      "bytes": 0,
      "xxh3_128": "ffeeddccbbaa99887766554433221100"
    }
  },
  "checksum": ")" + checksum +
                      "\"\n}\n");
  EXPECT_EQ(with_checksum(text), text);
}

TEST(ManifestTest, ComesBackAsItWas) {
  const auto manifest = made_manifest();
  EXPECT_EQ(parse_manifest(to_json(manifest), "m"), manifest);
}

TEST(ManifestTest, ComesBackWithOddNamesInTheirOrder) {
  auto manifest = made_manifest();
  manifest.options = {{"z", ""},
                      {"a", "\"quoted\" \\ \n\t\x01 \u20ac"},
                      {"", "no name"},
                      {"checksum\": \"0000000000000000\"\n}\n", "x"},
                      {std::string("nul\0in", 6), std::string(1, '\0')}};
  manifest.metrics = {{"", -0.0}, {"top 5", 1e300}, {"\u20ac", 5e-324}};
  manifest.reason = "\"\n";
  manifest.files[0].name = "\u00e4 b.safetensors";
  manifest.position.step = std::numeric_limits<std::int64_t>::max();
  const auto read = parse_manifest(to_json(manifest), "m");
  EXPECT_EQ(read, manifest);
  EXPECT_TRUE(std::signbit(read.metrics.at("")));
}

TEST(ManifestTest, KeepsWhatEpochsCameTo) {
  auto manifest = made_manifest();
  manifest.history = {
      {.fit = 1, .epoch = 1, .training = {{"loss", 0.1}}, .validation = {}},
      {.fit = 2, .epoch = 3, .training = {{"acc", 80}}, .validation = {{"acc", 1e-300}}}};
  EXPECT_EQ(parse_manifest(to_json(manifest), "m"), manifest);
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& why) {
    const auto text = with_checksum(replaced(to_json(manifest), from, to));
    expect_error([&] { parse_manifest(text, "m"); }, ErrorKind::Data, why);
  };
  refused("\"fit\": 2", "\"fit\": 0", "m: history: expected a whole number of at least 1 as 'fit'");
  refused("\"training\": {\n        \"acc\"", "\"trainin\": {\n        \"acc\"",
          "m: history: expected nothing else, found 'trainin'");
  refused("\"history\": [", "\"history\": 1, \"job2\": [",
          "m: expected nothing else, found 'job2'");
}

TEST(ManifestTest, KeepsMetricsThatAreNoNumbers) {
  constexpr auto kInfinity = std::numeric_limits<double>::infinity();
  auto manifest = made_manifest();
  manifest.metrics = {{"a", std::nan("")}, {"b", kInfinity}, {"c", -kInfinity}, {"d", 2}};
  const auto text = to_json(manifest);
  EXPECT_THAT(text, ::testing::HasSubstr("\"a\": \"nan\""));
  const auto read = parse_manifest(text, "m").metrics;
  EXPECT_TRUE(std::isnan(read.at("a")));
  EXPECT_EQ(read.at("b"), kInfinity);
  EXPECT_EQ(read.at("c"), -kInfinity);
  EXPECT_EQ(read.at("d"), 2);
}

TEST(ManifestTest, ReplacesWhatIsNotUtf8) {
  auto manifest = made_manifest();
  manifest.options = {{"data", "/tmp/\xff"}};
  const auto read = parse_manifest(to_json(manifest), "m");
  EXPECT_EQ(read.options[0].second, "/tmp/\ufffd");
  EXPECT_TRUE(contradictions(read, manifest.options).empty());
}

TEST(ManifestTest, RefusesAnOptionThatOccursTwice) {
  auto manifest = made_manifest();
  manifest.options.emplace_back("lr", "0.1");
  expect_error([&] { to_json(manifest); }, ErrorKind::Bug,
               "manifest: the option 'lr' occurs twice");
}

TEST(ManifestTest, NoticesEveryBitThatFlips) {
  const auto text = to_json(made_manifest());
  for (std::size_t i = 0; i < 8 * text.size(); ++i) {
    auto damaged = text;
    damaged[i / 8] = static_cast<char>(damaged[i / 8] ^ (1 << i % 8));
    expect_error([&] { parse_manifest(damaged, "m"); }, ErrorKind::Data, "m: expected ");
  }
}

TEST(ManifestTest, NoticesEveryCut) {
  const auto text = to_json(made_manifest());
  for (std::size_t size = 0; size < text.size(); ++size) {
    // A copy of exactly that size, so that a sanitizer sees what is read beyond.
    const std::vector<char> cut(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(size));
    expect_error(
        [&] {
          parse_manifest({cut.data(), cut.size()}, "m");
        },
        ErrorKind::Data,
        "m: expected a manifest that ends with its checksum, found " + std::to_string(size) +
            " bytes that do not");
  }
  expect_error([&] { parse_manifest(text + "\n", "m"); }, ErrorKind::Data,
               "ends with its checksum");
}

TEST(ManifestTest, RefusesWhatHasTheChecksumOfSomethingElse) {
  const auto text = to_json(made_manifest());
  expect_error([&] { parse_manifest(replaced(text, "0.05", "0.06"), "m"); }, ErrorKind::Data,
               "m: expected the checksum ");
}

TEST(ManifestTest, HasAJobThoughItMayBeEmpty) {
  auto manifest = made_manifest();
  manifest.job = "";
  const auto text = to_json(manifest);
  EXPECT_THAT(text, ::testing::HasSubstr("\"job\": \"\""));
  EXPECT_EQ(parse_manifest(text, "m"), manifest);
  expect_refused("  \"job\": \"5f3a\",\n", "", "m: expected a 'job', found none");
  expect_refused("\"5f3a\"", "7", "m: expected a text as 'job', found 7");
}

TEST(ManifestTest, RefusesWhatIsNoJson) {
  expect_refused("\"position\"", "position", "m: expected JSON, found something else");
  expect_refused("500", "1e999", "m: expected JSON, found something else");
  expect_refused("500", "\"\xff\"", "m: expected JSON, found something else");
  expect_refused("500", "[[[[[[[[[[[[]]]]]]]]]]]]",
                 "m: expected JSON of at most 8 levels, found more");
  expect_refused("\"reason\"", "\"weights\"", "m: expected each name once, found 'weights' twice");
  expect_refused("\"epoch_step\"", "\"step\"", "m: expected each name once, found 'step' twice");
}

TEST(ManifestTest, RefusesAnotherFormat) {
  expect_refused("checkpoint\": 1", "checkpoint\": 2",
                 "m: expected a checkpoint of format 1, found 2");
  expect_refused("checkpoint\": 1", "checkpoint\": 2", "a newer lockstep wrote it: use that");
  expect_refused("lockstep_checkpoint", "lockstep_check",
                 "m: expected a 'lockstep_checkpoint', found none");
}

TEST(ManifestTest, RefusesPositionsThatThereCannotBe) {
  expect_refused("500", "-1",
                 "m: position: expected a whole number of at least 0 as 'step', found -1");
  expect_refused("500", "1.5", "found 1.5");
  expect_refused("500", "\"5\"", "found \"5\"");
  expect_refused("500", "null", "found null");
  expect_refused("500", "{}", "found an object");
  expect_refused("500", "9223372036854775808", "found 9223372036854775808");
  expect_refused("\"epoch\": 3", "\"epoch\": 0", "at least 1 as 'epoch', found 0");
  expect_refused("\"epoch\"", "\"epochs\"", "m: position: expected nothing else, found 'epochs'");
  expect_refused("    \"epoch\": 3,\n", "", "m: position: expected a 'epoch', found none");
}

TEST(ManifestTest, RefusesMembersOfAnotherKind) {
  expect_refused("\"0.05\"", "0.05", "m: options: expected a text as 'lr', found 0.05");
  expect_refused("0.1", "true", "m: metrics: expected a number as 'acc', found true");
  expect_refused("0.1", "\"much\"", "found \"much\"");
  expect_refused("\"interval\"", "[]", "m: expected a text as 'reason', found an array");
  expect_refused("0123456789abcdef", "0123456789ABCDEF",
                 "m: expected 16 hexadecimal digits as 'weights', found '0123456789ABCDEF'");
  expect_refused("0123456789abcdef", "012", "found '012'");
  expect_refused("\"reason\"", "\"cause\"", "m: expected nothing else, found 'cause'");
  expect_refused("  \"reason\": \"interval\",\n", "", "m: expected a 'reason', found none");
}

TEST(ManifestTest, RefusesFilesThatLeadElsewhere) {
  for (const std::string name :
       {"../x", "/etc/passwd", "", ".", "..", "manifest.json", "a\\u0000"}) {
    expect_refused("\"state.safetensors\"", "\"" + name + "\"",
                   "m: files: expected names of files in this folder, found '");
  }
  expect_refused(
      "\"bytes\": 1234", "\"bytes\": -1",
      "m: files: weights.safetensors: expected a whole number of at least 0 as 'bytes', found -1");
  expect_refused("00112233", "0011223", "expected 32 hexadecimal digits as 'xxh3_128'");
  expect_refused("\"bytes\"", "\"size\"",
                 "m: files: weights.safetensors: expected nothing else, found 'size'");
}

TEST(ManifestTest, TellsWhichOptionsAreOthers) {
  const auto manifest = made_manifest();
  EXPECT_TRUE(contradictions(manifest, manifest.options).empty());
  EXPECT_EQ(contradictions(manifest, {{"batch-size", "32"}, {"seed", "1"}, {"model", "resnet20"}}),
            (std::vector<Contradiction>{
                {"batch-size", "16", "32"}, {"seed", "none", "1"}, {"lr", "0.05", "none"}}));
}

}  // namespace
}  // namespace lockstep::checkpoint

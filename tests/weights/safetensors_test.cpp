#include "lockstep/weights/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "lockstep/base/file.h"
#include "lockstep/base/mapped_file.h"
#include "lockstep/weights/digest.h"
#include "lockstep/weights/match.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"
#include "tests/weights/made_tensors.h"

namespace lockstep::weights {
namespace {

using testing::bytes_of_text;
using testing::expect_error;
using testing::ScratchFolder;
using testing::text_of;

std::string file_of(const std::string& header, const std::string& buffer) {
  std::string file(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(header.size() >> (8 * i));
  return file + header + buffer;
}

void expect_refused_safetensors(const std::string& file, const std::string& text) {
  expect_error([&] { read_safetensors(bytes_of_text(file), "w"); }, ErrorKind::Data, text);
}

void expect_header_refused(const std::string& header, const std::string& text) {
  const auto file = file_of(header, "12345678");
  expect_refused_safetensors(file, "w: header: ");
  expect_refused_safetensors(file, text);
}

std::string tensor(const std::string& name, const std::string& type, const std::string& shape,
                   int begin, int end) {
  return "\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":[" + shape +
         "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

TEST(SafetensorsTest, GivesBackWhatWasWritten) {
  const ScratchFolder folder;
  const auto path = folder.path() + "/w.safetensors";
  auto set = testing::every_type();
  set.metadata = {{"epoch", "3"}, {"note", "\"quoted\" \u20ac"}};
  write_safetensors(path, set);
  const auto file = read_file(path);
  const auto read = read_safetensors(bytes_of_text(file), path);
  const auto expected = in_order(set, "");
  ASSERT_EQ(read.tensors.size(), expected.tensors.size());
  for (std::size_t i = 0; i < read.tensors.size(); ++i) {
    EXPECT_EQ(read.tensors[i].name, expected.tensors[i].name);
    EXPECT_EQ(read.tensors[i].type, expected.tensors[i].type);
    EXPECT_EQ(read.tensors[i].shape, expected.tensors[i].shape);
    EXPECT_EQ(text_of(read.tensors[i].bytes), text_of(expected.tensors[i].bytes));
  }
  EXPECT_EQ(read.possible_ties, (std::vector<Tied>{{"t.f32", "head"}, {"z.tail", "head"}}));
  EXPECT_EQ(read.find("z.tail"), read.find("head"));
  EXPECT_EQ(read.metadata.at("note"), "\"quoted\" \u20ac");
  EXPECT_EQ(read.metadata.at("format"), "pt");
  EXPECT_EQ(read.metadata.size(), 5u);
  EXPECT_EQ(digest_of(read), digest_of(set));
  write_safetensors(path + "2", read);
  EXPECT_TRUE(read_file(path + "2") == file);
}

TEST(SafetensorsTest, HandsTheSameBytesToASink) {
  const ScratchFolder folder;
  const auto set = testing::every_type();
  write_safetensors(folder.path() + "/w", set);
  std::string handed;
  write_safetensors([&](std::span<const std::byte> bytes) { handed += text_of(bytes); }, set, "w");
  EXPECT_TRUE(handed == read_file(folder.path() + "/w"));
  auto refused = set;
  refused.tensors[0].name = "__metadata__";
  int calls = 0;
  expect_error([&] { write_safetensors([&](auto) { ++calls; }, refused, "w"); }, ErrorKind::Options,
               "w: a tensor cannot be called '__metadata__'");
  EXPECT_EQ(calls, 0);
}

TEST(SafetensorsTest, AlignsElementsToTheirSizeAndLeavesOneFile) {
  const ScratchFolder folder;
  write_safetensors(folder.path() + "/w.safetensors", testing::every_type());
  const MappedFile file(folder.path() + "/w.safetensors");
  for (const auto& one : read_safetensors(file.bytes(), "w").tensors) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one.bytes.data()) % size_of(one.type), 0u)
        << one.name;
  }
  std::filesystem::remove(folder.path() + "/w.safetensors");
  EXPECT_TRUE(folder.is_empty());
}

TEST(SafetensorsTest, ReadsAFileWithoutTensors) {
  EXPECT_TRUE(read_safetensors(bytes_of_text(file_of("{}", "")), "w").tensors.empty());
}

TEST(SafetensorsTest, DoesNotTakeTheFormatForATie) {
  const auto file = file_of(
      "{\"__metadata__\":{\"format\":\"pt\",\"x\":\"pt\"}," + tensor("pt", "U8", "1", 0, 1) + "}",
      "a");
  const auto set = read_safetensors(bytes_of_text(file), "w");
  EXPECT_EQ(set.possible_ties, (std::vector<Tied>{{"x", "pt"}}));
  EXPECT_EQ(set.metadata.at("format"), "pt");
}

TEST(SafetensorsTest, TakesNotesForNoMoreThanPossibleTies) {
  const auto stored = tensor("fc1.bias", "F32", "1", 0, 4) + "}";
  const auto plain = file_of("{" + stored, "abcd");
  // Before and after the name of the tensor, and one that names another note.
  const auto noted = file_of(
      "{\"__metadata__\":{\"best_layer\":\"fc1.bias\",\"worst\":\"fc1.bias\",\"a\":\"worst\","
      "\"z\":\"best_layer\"}," +
          stored,
      "abcd");
  const auto set = read_safetensors(bytes_of_text(noted), "w");
  ASSERT_EQ(set.tensors.size(), 1u);
  EXPECT_EQ(set.tensors[0].name, "fc1.bias");
  EXPECT_TRUE(set.ties.empty());
  EXPECT_EQ(set.possible_ties,
            (std::vector<Tied>{{"best_layer", "fc1.bias"}, {"worst", "fc1.bias"}}));
  EXPECT_EQ(set.metadata.at("best_layer"), "fc1.bias");
  EXPECT_EQ(digest_of(set), digest_of(read_safetensors(bytes_of_text(plain), "w")));
  const WantedTensors model{{{"fc1.bias", ElementType::F32, {1}}}, {}};
  EXPECT_EQ(match(model, set, "w"), (std::vector<const TensorView*>{&set.tensors[0]}));
}

TEST(SafetensorsTest, RefusesWhatIsNoHeader) {
  expect_refused_safetensors(
      "",
      "w: at byte 0: expected 8 bytes that tell the length of the header, found a "
      "file of 0");
  expect_refused_safetensors("1234567", "found a file of 7");
  expect_refused_safetensors(file_of("{}", "").substr(0, 9),
                             "expected a header of at most 1 bytes, found 2");
  expect_refused_safetensors(file_of("", ""),
                             "at byte 8: expected a header that begins with '{', found nothing");
  expect_refused_safetensors(file_of("[1]", ""), "found '[1]'");
  expect_refused_safetensors(std::string(8, '\xff') + "{}", "found 18446744073709551615");
  expect_refused_safetensors(file_of("{\"a\":", ""), "expected a header in JSON, found ");
  expect_refused_safetensors(file_of("{\"a\":\"\xff\"}", ""), "expected a header in JSON");
  expect_refused_safetensors(file_of("{} x", ""), "expected a header in JSON");
}

TEST(SafetensorsTest, RefusesHeadersOfAnotherShape) {
  const auto good = tensor("a", "U8", "8", 0, 8);
  expect_header_refused("{" + good + "," + good + "}", "expected each name once, found 'a' twice");
  expect_header_refused("{\"a\":1}", "expected an object as 'a', found 1");
  expect_header_refused("{\"a\":null}", "expected an object as 'a', found null");
  expect_header_refused("{\"a\":[]}", "expected an object as 'a', found a list");
  expect_header_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[8]}}",
                        "tensor 'a' has no 'data_offsets'");
  expect_header_refused("{\"a\":{}}", "tensor 'a' has no 'dtype'");
  expect_header_refused("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}",
                        "tensor 'a': expected 'dtype' once, found it twice");
  expect_header_refused("{\"a\":{\"offset\":1}}",
                        "tensor 'a': expected dtype, shape and data_offsets, found 'offset'");
  expect_header_refused("{\"a\":{\"shape\":{}}}",
                        "tensor 'a': expected a list of whole numbers as 'shape', found an object");
  expect_header_refused("{\"a\":{\"shape\":[-1]}}", "found -1");
  expect_header_refused("{\"a\":{\"shape\":[1.5]}}", "found 1.5");
  expect_header_refused("{\"a\":{\"shape\":[true]}}", "found true");
  expect_header_refused("{\"a\":{\"shape\":[[]]}}", "found a list");
  expect_header_refused("{\"a\":{\"shape\":[9223372036854775808]}}", "found 9223372036854775808");
  expect_header_refused("{\"a\":{\"dtype\":[1]}}", "expected a string as 'dtype', found a list");
  expect_header_refused("{\"a\":{\"data_offsets\":[1]}}", "expected 2 data_offsets, found 1");
  std::string many = "1";
  for (int i = 0; i < 64; ++i) many += ",1";
  expect_header_refused("{" + tensor("a", "U8", many, 0, 8) + "}",
                        "tensor 'a': expected at most 64 numbers as its shape, found more");
  expect_header_refused("{\"__metadata__\":{\"a\":1}}",
                        "__metadata__: expected a string as 'a', found 1");
  expect_header_refused("{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}",
                        "expected each key of __metadata__ once, found 'a' twice");
}

TEST(SafetensorsTest, NamesTypesThatItDoesNotKnow) {
  for (const auto* const type : {"F8_E4M3", "F8_E5M2", "C64", "float"}) {
    expect_header_refused("{" + tensor("a", type, "8", 0, 8) + "}",
                          "tensor 'a': expected elements of a type that lockstep knows (F32, F16, "
                          "BF16, F64, I64, …), found '" +
                              std::string(type) + "'");
  }
}

TEST(SafetensorsTest, RefusesOffsetsThatDoNotAddUp) {
  const auto expect = [](const std::string& tensors, const std::string& text) {
    expect_refused_safetensors(file_of("{" + tensors + "}", "12345678"), text);
  };
  expect(tensor("a", "U8", "9", 0, 9),
         "w: tensor 'a': expected data_offsets within 8 bytes, found [0, 9]");
  expect(tensor("a", "U8", "8", 8, 0), "found [8, 0]");
  expect(tensor("a", "F32", "3", 0, 8), "w: tensor 'a': expected 12 bytes for f32 [3], found 8");
  expect(tensor("a", "F32", "9000000000000000000,9000000000000000000", 0, 8),
         "expected more than there can be bytes for f32 [9000000000000000000");
  expect(tensor("a", "U8", "4", 0, 4) + "," + tensor("b", "U8", "5", 3, 8),
         "w: expected tensor 'b' to begin at 4, where the one before it ends, found 3");
  expect(tensor("a", "U8", "4", 0, 4) + "," + tensor("b", "U8", "3", 5, 8), "found 5");
  expect(tensor("a", "U8", "7", 0, 7),
         "w: expected the tensors to end with the file, found 1 bytes after the last");
}

TEST(SafetensorsTest, RefusesNamesThatAFileCannotHold) {
  const ScratchFolder folder;
  TensorSet set;
  testing::add_tensor(set, "__metadata__", ElementType::U8, {1}, "x");
  const auto path = folder.path() + "/w";
  expect_error([&] { write_safetensors(path, set); }, ErrorKind::Options,
               "a tensor cannot be called '__metadata__'");
  set.tensors[0].name = "a";
  set.metadata["note"] = "\xff";
  expect_error([&] { write_safetensors(path, set); }, ErrorKind::Options,
               "expected names in UTF-8, found '?'");
  EXPECT_TRUE(folder.is_empty());
}

TEST(SafetensorsTest, SurvivesEveryTruncationAndAnyFlip) {
  const ScratchFolder folder;
  const auto path = folder.path() + "/w.safetensors";
  write_safetensors(path, testing::every_type());
  const auto file = read_file(path);
  for (std::size_t size = 0; size < file.size(); ++size) {
    // A copy of exactly that size, so that a sanitizer sees what is read beyond.
    const std::vector<char> cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    expect_refused_safetensors(std::string(cut.begin(), cut.end()), "w: ");
  }
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {
    auto damaged = file;
    damaged[random() % file.size()] ^= static_cast<char>(1 << random() % 8);
    try {
      digest_of(read_safetensors(bytes_of_text(damaged), "w"));
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::Data) << error.what();
    }
  }
}

}  // namespace
}  // namespace lockstep::weights

#include "lockstep/data/formats/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/made_files.h"

namespace lockstep::data {
namespace {

using lockstep::testing::expect_data_error;
using lockstep::testing::fixture;

void expect_refused_pickle(const std::string& file, const std::vector<std::string>& parts) {
  expect_data_error([&] { Pickle(as_bytes(file), "some/file"); }, parts);
}

class PickledBatchTest : public ::testing::TestWithParam<const char*> {};

TEST_P(PickledBatchTest, GivesWhatPythonStored) {
  const auto file = fixture(std::string("pickles/") + GetParam());
  const Pickle pickle(as_bytes(file), GetParam());
  const auto& root = pickle.root();
  ASSERT_EQ(root.kind, PickleKind::Dict);
  ASSERT_NE(root.find("batch_label"), nullptr);
  EXPECT_EQ(root.find("batch_label")->bytes, "testing batch 1 of 1");
  ASSERT_NE(root.find("labels"), nullptr);
  ASSERT_EQ(root.find("labels")->items.size(), 2u);
  EXPECT_EQ(root.find("labels")->items[0]->integer, 7);
  EXPECT_EQ(root.find("labels")->items[1]->integer, 3);
  ASSERT_NE(root.find("filenames"), nullptr);
  ASSERT_EQ(root.find("filenames")->items.size(), 2u);
  EXPECT_EQ(root.find("filenames")->items[1]->bytes, "b.png");
  ASSERT_NE(root.find("data"), nullptr);
  EXPECT_EQ(root.find("data")->kind, PickleKind::Array);
  EXPECT_EQ(root.find("data")->shape, (std::vector<std::int64_t>{2, 3072}));
  EXPECT_TRUE(root.find("data")->bytes == fixture("pickles/data.raw"));
  EXPECT_EQ(root.find("missing"), nullptr);
}

TEST_P(PickledBatchTest, RefusesEveryTruncation) {
  const auto file = fixture(std::string("pickles/") + GetParam());
  for (std::size_t size = 0; size<file.size(); size += size> 300 && size < 6000 ? 97 : 1) {
    expect_refused_pickle(file.substr(0, size), {"some/file: at byte "});
  }
}

TEST_P(PickledBatchTest, RefusesBytesAfterTheEnd) {
  const auto file = fixture(std::string("pickles/") + GetParam());
  expect_refused_pickle(file + "x",
                        {"at byte " + std::to_string(file.size()), "found 1 more bytes"});
}

INSTANTIATE_TEST_SUITE_P(EveryProtocol, PickledBatchTest,
                         ::testing::Values("p0", "p1", "p2", "p3", "p4", "p5", "python2",
                                           "bytes_keys", "fortran", "fortran5"),
                         [](const auto& test) { return std::string(test.param); });

TEST(PickleTest, DoesNotCopyAnArrayOfPython2) {
  const auto file = fixture("pickles/python2");
  const Pickle pickle(as_bytes(file), "f");
  const auto elements = pickle.root().find("data")->bytes;
  EXPECT_GE(elements.data(), file.data());
  EXPECT_LE(elements.data() + elements.size(), file.data() + file.size());
}

TEST(PickleTest, ReadsScalarsAndContainers) {
  using namespace std::string_literals;
  const auto file =
      "(NI01\nI00\nI-12\nL34L\n\x88\x89K\xffM\xfe\xffJ\xfe\xff\xff\xff\x8a\x02\x00\xff)"
      "S'it\\'s \\x41\\n'\nV\\u00e4\\u20ac\n]K\x05"
      "a(K\x06K\x07lK\x01\x85t."s;
  const Pickle pickle(as_bytes(file), "f");
  const auto& items = pickle.root().items;
  ASSERT_EQ(pickle.root().kind, PickleKind::Tuple);
  ASSERT_EQ(items.size(), 17u);
  EXPECT_EQ(items[0]->kind, PickleKind::None);
  EXPECT_EQ(items[1]->kind, PickleKind::Bool);
  std::vector<std::int64_t> integers;
  for (std::size_t i = 1; i < 11; ++i) integers.push_back(items[i]->integer);
  EXPECT_THAT(integers, ::testing::ElementsAre(1, 0, -12, 34, 1, 0, 255, 65534, -2, -256));
  EXPECT_EQ(items[11]->kind, PickleKind::Tuple);
  EXPECT_EQ(items[12]->bytes, "it's A\n");
  EXPECT_EQ(items[13]->bytes, "\u00e4\u20ac");
  EXPECT_EQ(items[14]->items[0]->integer, 5);
  EXPECT_EQ(items[15]->items[1]->integer, 7);
  EXPECT_EQ(items[16]->items[0]->integer, 1);
}

TEST(PickleTest, RefusesToCallAnything) {
  expect_refused_pickle(fixture("pickles/system_call"),
                        {"some/file: at byte 0: ", "found a call of 'os.system'"});
  expect_refused_pickle(
      "\x80\x04\x8c\x08"
      "builtins\x8c\x04"
      "eval\x93.",
      {"at byte 18: ", "'builtins.eval'"});
}

TEST(PickleTest, NamesTheElementTypeThatItDoesNotRead) {
  expect_refused_pickle(fixture("pickles/float_array"),
                        {"expected an array of unsigned bytes", "'f4'"});
}

TEST(PickleTest, RefusesForeignFiles) {
  expect_refused_pickle("", {"some/file: at byte 0: expected 1 more bytes"});
  expect_refused_pickle("\x89PNG\r\n", {"some/file: at byte "});
  expect_refused_pickle("\x1f\x8b\x08", {"at byte 0: expected an opcode", "found 1f"});
  expect_refused_pickle("\x80\x06N.",
                        {"at byte 0: expected a pickle of protocol 0 to 5, found protocol 6"});
}

TEST(PickleTest, RefusesAStackThatDoesNotAddUp) {
  expect_refused_pickle(".", {"at byte 0: expected a value on the stack, found none"});
  expect_refused_pickle("Na.", {"at byte 1: expected a value on the stack, found none"});
  expect_refused_pickle("NNa.", {"at byte 2: expected a list, found none"});
  expect_refused_pickle("e.", {"at byte 0: expected a mark on the stack, found none"});
  expect_refused_pickle("}(Nu.", {"at byte 3: expected a value for each key"});
  expect_refused_pickle("N(a.", {"at byte 2: expected a value on the stack"});
  expect_refused_pickle("h\x07.", {"at byte 0: expected a value remembered as 7, found none"});
}

TEST(PickleTest, RefusesAnArrayWhoseShapeDoesNotFit) {
  auto file = fixture("pickles/python2");
  const auto rows = file.find("K\x02M");
  ASSERT_NE(rows, std::string::npos);
  file[rows + 1] = 3;
  expect_refused_pickle(file, {"the shape [3, 3072]", "found 6144"});
}

TEST(PickleTest, SurvivesAListThatHoldsItself) {
  const std::string file =
      "]q\x01h\x01"
      "a.";
  const Pickle pickle(as_bytes(file), "f");
  EXPECT_EQ(pickle.root().items[0], &pickle.root());
}

TEST(PickleTest, LimitsWhatAFileUnpacksTo) {
  // One long text, encoded again and again.
  std::string file = "c_codecs\nencode\nq";
  file += '\0';
  file += "(V" + std::string(1000, 'x') + "\nVlatin1\ntq\x01";
  for (int i = 0; i < 100; ++i) {
    file += "0h";
    file += '\0';
    file += "h\x01R";
  }
  expect_refused_pickle(file + ".", {"once unpacked, found more"});
}

TEST(PickleTest, ReadsFloats) {
  using namespace std::string_literals;
  const auto file = "(G\x3f\xf8\0\0\0\0\0\0F-2.5e-1\nt."s;
  const Pickle pickle(as_bytes(file), "f");
  EXPECT_EQ(pickle.root().items[0]->kind, PickleKind::Float);
  EXPECT_EQ(pickle.root().items[0]->real, 1.5);
  EXPECT_EQ(pickle.root().items[1]->real, -0.25);
  expect_refused_pickle("Fone\n.", {"at byte 0: expected a number, found 'one'"});
}

TEST(PickledSymbolsTest, SayWhatWouldHaveBeenCalled) {
  const std::string file = "cos\nsystem\n(S'echo hello'\ntR.";
  const Pickle pickle(as_bytes(file), "f", {.calls = PickleCalls::Symbols});
  ASSERT_EQ(pickle.root().kind, PickleKind::Object);
  EXPECT_EQ(pickle.root().bytes, "os.system");
  EXPECT_EQ(pickle.root().items[0]->items[0]->bytes, "echo hello");
}

TEST(PickledSymbolsTest, KnowOrderedDictsOfBothPythons) {
  const std::string old_file = "ccollections\nOrderedDict\n(](](Va\nI1\ne](Vb\nI2\neetR.";
  const Pickle old_dict(as_bytes(old_file), "f", {.calls = PickleCalls::Symbols});
  ASSERT_EQ(old_dict.root().kind, PickleKind::Dict);
  EXPECT_EQ(old_dict.root().find("b")->integer, 2);
  const std::string new_file = "ccollections\nOrderedDict\n)R(Va\nK\x01u}b.";
  const Pickle new_dict(as_bytes(new_file), "f", {.calls = PickleCalls::Symbols});
  EXPECT_EQ(new_dict.root().find("a")->integer, 1);
}

TEST(PickledSymbolsTest, KeepPersistentIdsObjectsSetsAndLargeIntegers) {
  using namespace std::string_literals;
  const auto file =
      "(Vid\nQcm\nC\n)\x81}bcm\nD\n)}\x92(K\x01K\x02"
      "e\x8f(K\x01\x90(K\x03\x91\x8a\x09"
      "123456789t."s;
  const Pickle pickle(as_bytes(file), "f", {.calls = PickleCalls::Symbols});
  const auto& items = pickle.root().items;
  ASSERT_EQ(items.size(), 6u);
  EXPECT_EQ(items[0]->bytes, kPersistent);
  EXPECT_EQ(items[0]->items[0]->bytes, "id");
  EXPECT_EQ(items[1]->bytes, "m.C");
  EXPECT_EQ(items[2]->bytes, "m.D");
  EXPECT_EQ(items[2]->items.size(), 1u);
  EXPECT_EQ(items[3]->items[0]->integer, 1);
  EXPECT_EQ(items[4]->items[0]->integer, 3);
  EXPECT_EQ(items[5]->kind, PickleKind::Object);
  expect_refused_pickle(
      "\x8a\x09"
      "123456789.",
      {"expected an integer of at most 8 bytes, found 9"});
}

TEST(PickledSymbolsTest, KeepTheStateThatWasSetLast) {
  using namespace std::string_literals;
  // An object that is part of its own state, too.
  const auto file = "cm\nC\n)\x81q\x01(K\x01tb(K\x02h\x01tb."s;
  const Pickle pickle(as_bytes(file), "f", {.calls = PickleCalls::Symbols});
  ASSERT_EQ(pickle.root().items.size(), 2u);
  EXPECT_TRUE(pickle.root().items[0]->items.empty());
  EXPECT_EQ(pickle.root().items[1]->items[0]->integer, 2);
  EXPECT_EQ(pickle.root().items[1]->items[1], &pickle.root());
  const auto large =
      "\x8a\x09"
      "123456789}b."s;
  EXPECT_TRUE(Pickle(as_bytes(large), "f", {.calls = PickleCalls::Symbols}).root().items.empty());
}

TEST(PickledSymbolsTest, LimitWhatSharedArgumentsCost) {
  // One list of pairs, made a dict again and again.
  std::string file = "ccollections\nOrderedDict\nq";
  file += '\0';
  file += "(](";
  for (int i = 0; i < 200; ++i) file += "NN\x86";
  file += "etq\x01";
  for (int i = 0; i < 200; ++i) {
    file += "0h";
    file += '\0';
    file += "h\x01R";
  }
  expect_data_error(
      [&] { Pickle(as_bytes(file + "."), "some/file", {.calls = PickleCalls::Symbols}); },
      {"once unpacked, found more"});
}

TEST(PickleTest, ReadsOneOfSeveralInAFile) {
  const std::string file = "K\x01.K\x02.rest";
  const Pickle second(as_bytes(file), "f", {.begin = 3, .end = PickleOptions::End::Anywhere});
  EXPECT_EQ(second.root().integer, 2);
  EXPECT_EQ(second.end(), 6u);
  expect_data_error([&] { Pickle(as_bytes(file), "f", {.begin = 6}); }, {"f: at byte 6: "});
}

}  // namespace
}  // namespace lockstep::data

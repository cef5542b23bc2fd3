#include "lockstep/weights/state_dict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "lockstep/base/file.h"
#include "lockstep/base/mapped_file.h"
#include "lockstep/weights/digest.h"
#include "lockstep/weights/zip_writer.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"
#include "tests/weights/made_tensors.h"

namespace lockstep::weights {
namespace {

using testing::bytes_of_text;
using testing::expect_error;
using testing::ScratchFolder;
using testing::text_of;
using testing::weight_fixture;

/// What torch_files.py says about every file that it makes of its example.
constexpr const char* kExampleDigest = "61004388628935d3";

void expect_refused_state_dict(const std::string& file, const std::string& text) {
  expect_error([&] { read_state_dict(bytes_of_text(file), "w"); }, ErrorKind::Data, text);
}

/// A file of torch.save with this pickle and one storage, '0'.
std::string zip_with(const std::string& pickle, const std::string& storage,
                     const std::string& byteorder = "little") {
  const ScratchFolder folder;
  PartialFile file(folder.path() + "/z");
  ZipWriter zip(file);
  zip.add("x/data.pkl", bytes_of_text(pickle));
  zip.add("x/byteorder", bytes_of_text(byteorder));
  zip.add("x/data/0", bytes_of_text(storage));
  zip.finish();
  file.publish();
  return read_file(folder.path() + "/z");
}

/// The persistent id of a storage, in protocol 0.
std::string storage(const std::string& type, int elements, const std::string& more = "") {
  return "(Vstorage\nctorch\n" + type + "\nV0\nVcpu\nI" + std::to_string(elements) + "\n" + more +
         "tQ";
}

/// {"a": function(arguments)}
std::string dict_with(const std::string& function, const std::string& arguments) {
  return "(Va\nctorch._utils\n" + function + "\n(" + arguments + "tRd.";
}

class ExampleTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ExampleTest, IsReadAsPythonReadsIt) {
  const auto file = read_file(weight_fixture(GetParam()));
  EXPECT_TRUE(is_state_dict(bytes_of_text(file)));
  const auto set = read_state_dict(bytes_of_text(file), "w");
  EXPECT_EQ(digest_of(set), kExampleDigest);
  EXPECT_EQ(set.ties, (std::vector<Tied>{{"tied.a", "alias"}, {"tied.b", "alias"}}));
  ASSERT_NE(set.find("conv.weight"), nullptr);
  EXPECT_EQ(set.find("conv.weight")->shape, (std::vector<std::int64_t>{4, 3, 2, 5}));
  EXPECT_EQ(set.find("bn.num_batches_tracked")->type, ElementType::I64);
  EXPECT_TRUE(set.find("bn.num_batches_tracked")->shape.empty());
  EXPECT_EQ(set.find("tied.b"), set.find("alias"));
  EXPECT_EQ(set.memory.size(), 3u);  // conv.weight, fc.transposed, view.every_other
}

TEST_P(ExampleTest, RefusesEveryTruncation) {
  const auto file = read_file(weight_fixture(GetParam()));
  for (std::size_t size = 0; size < file.size(); ++size)
    expect_refused_state_dict(file.substr(0, size), "w: ");
}

TEST_P(ExampleTest, SurvivesAnyFlip) {
  const auto file = read_file(weight_fixture(GetParam()));
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    auto damaged = file;
    damaged[random() % file.size()] ^= static_cast<char>(1 << random() % 8);
    try {
      digest_of(read_state_dict(bytes_of_text(damaged), "w"));
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::Data) << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, ExampleTest,
                         ::testing::Values("zip.pt", "legacy.pt", "wrapped.pt", "wrapped_legacy.pt",
                                           "protocol4.pt"),
                         [](const auto& test) {
                           const std::string name = test.param;
                           return name.substr(0, name.find('.'));
                         });

TEST(StateDictTest, GivesBackWhatWasWritten) {
  const ScratchFolder folder;
  const auto path = folder.path() + "/w.pt";
  const auto set = testing::every_torch_type();
  write_state_dict(path, set);
  const MappedFile file(path);
  const auto read = read_state_dict(file.bytes(), path);
  EXPECT_EQ(digest_of(read), digest_of(set));
  EXPECT_EQ(read.ties, (std::vector<Tied>{{"t.f32", "head"}, {"z.tail", "head"}}));
  for (const auto& tensor : read.tensors) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % 64, 0u) << tensor.name;
  }
  EXPECT_EQ(text_of(read.find("scalar")->bytes), "12345678");
  EXPECT_TRUE(read.memory.empty());
}

TEST(StateDictTest, IsTheSameFileForTheSameTensors) {
  const ScratchFolder folder;
  auto set = testing::every_torch_type();
  write_state_dict(folder.path() + "/a", set);
  std::reverse(set.tensors.begin(), set.tensors.end());
  write_state_dict(folder.path() + "/b", set);
  EXPECT_TRUE(read_file(folder.path() + "/a") == read_file(folder.path() + "/b"));
}

TEST(StateDictTest, RefusesToWriteTypesThatPyTorchHasNoStorageFor) {
  const ScratchFolder folder;
  expect_error([&] { write_state_dict(folder.path() + "/w", testing::every_type()); },
               ErrorKind::Options,
               "expected 't.u16' to be of a type that PyTorch's files have, found u16");
  EXPECT_TRUE(folder.is_empty());
}

TEST(StateDictTest, SaysWhatItFoundInsteadOfAStateDict) {
  const auto expect = [](const std::string& name, const std::string& text) {
    expect_refused_state_dict(read_file(weight_fixture(name)), text);
  };
  expect("script.pt", "w: expected a state dict, found a TorchScript program");
  expect("whole_model.pt",
         "w: expected a dict of tensors, found an object of 'torch.nn.modules.linear.Linear'\n"
         "save model.state_dict(), not the model itself");
  expect("list.pt", "w: expected a dict of tensors, found a list");
  expect("tensor.pt", "w: expected a dict of tensors, found an object of 'torch._utils._rebuild_");
  expect("number.pt", "w: 'epoch': expected a tensor, found an integer");
  expect("complex.pt",
         "w: 'a': expected elements of a type that lockstep knows, found a "
         "'torch.ComplexFloatStorage'");
  expect("sparse.pt", "w: 'a': expected a dense tensor, found a sparse tensor");
  expect("quantized.pt", "w: 'a': expected a dense tensor, found a quantized tensor");
  expect("expanded.pt",
         "w: 'a': expected at most 4 bytes in another order than row-major, found "
         "4000, with strides [0]");
  expect_refused_state_dict("", "w: at byte 0: expected a file of torch.save, found nothing");
  expect_refused_state_dict("\x80\x02}.", "found 80 02 7d 2e");
  expect_refused_state_dict(zip_with("N.", "").replace(0, 4, "PK\x03\x05"),
                            "expected a file of torch.save");
  expect_refused_state_dict(zip_with("N.", "", "big"),
                            "w: expected little-endian numbers, found 'big'");
}

TEST(StateDictTest, ReadsWhatOldAndNewPyTorchWrite) {
  const auto read = [](const std::string& pickle) {
    const auto file = zip_with(pickle, "abcdefgh");
    const auto set = read_state_dict(bytes_of_text(file), "w");
    EXPECT_EQ(set.tensors.size(), 1u);
    return describe(set.tensors[0].type, set.tensors[0].shape) + " " +
           text_of(set.tensors[0].bytes);
  };
  // Before 0.4 tensors came without requires_grad and storages could be views of others.
  EXPECT_EQ(read(dict_with("_rebuild_tensor", storage("FloatStorage", 2) + "I1\n(I1\nt(I1\nt")),
            "f32 [1] efgh");
  EXPECT_EQ(read(dict_with("_rebuild_tensor",
                           storage("ByteStorage", 8, "(Vview\nI3\nI5\nt") + "I1\n(I2\nt(I1\nt")),
            "u8 [2] ef");
  // Since 2.3 there are unsigned types, which have no storage class.
  EXPECT_EQ(read(dict_with("_rebuild_tensor_v3",
                           "(Vstorage\nctorch.storage\nUntypedStorage\nV0\nVcpu\nI8\ntQ"
                           "I1\n(I2\nt(I1\ntI00\nNctorch\nuint16\n")),
            "u16 [2] cdef");
  EXPECT_EQ(read("(Va\nctorch._utils\n_rebuild_parameter_with_state\n(ctorch._utils\n_rebuild_"
                 "tensor_v2\n(" +
                 storage("CharStorage", 8) + "I0\n(I8\nt(I1\ntI00\nNtRI01\nN(dtRd."),
            "i8 [8] abcdefgh");
}

TEST(StateDictTest, ReadsTensorsThatAreStates) {
  const auto read = [](const std::string& pickle) {
    const auto file = zip_with("(Va\n" + pickle + "d.", "abcdefgh");
    const auto set = read_state_dict(bytes_of_text(file), "w");
    EXPECT_EQ(set.tensors.size(), 1u);
    return describe(set.tensors[0].type, set.tensors[0].shape) + " " +
           text_of(set.tensors[0].bytes);
  };
  const auto parts = storage("FloatStorage", 2) + "I1\n(I1\nt(I1\nt";
  const std::string parameter = "ctorch.nn.parameter\nParameter\n";
  const auto rebuilt = "ctorch._utils\n_rebuild_tensor\n(" + parts + "tR";
  const auto tensor = "ctorch\nFloatTensor\n)R(" + parts + "tb";
  EXPECT_EQ(read(tensor), "f32 [1] efgh");
  EXPECT_EQ(read(parameter + ")\x81(" + rebuilt + "N}I01\nI00\ntb"), "f32 [1] efgh");
  EXPECT_EQ(read(parameter + ")\x81(" + tensor + "N}I01\nI00\ntb"), "f32 [1] efgh");
  EXPECT_EQ(read(parameter + ")\x81(" + parts + "tb"), "f32 [1] efgh");
  EXPECT_EQ(read(parameter + "(" + tensor + "tR(I01\nI00\n}tb"), "f32 [1] efgh");
  const auto expect = [](const std::string& pickle, const std::string& text) {
    expect_refused_state_dict(zip_with("(Va\n" + pickle + "d.", "abcdefgh"), text);
  };
  expect(parameter + ")\x81", "found an object of 'torch.nn.parameter.Parameter'");
  expect(parameter + ")\x81(NNNNNtb", "expected an object as part 0, found none");
  expect("cmine\nTensor\n)R(" + parts + "tb", "found an object of 'mine.Tensor'");
  expect(parameter + ")\x81p9\n(g9\nNNNNtb", "expected a tensor in at most 4 others, found more");
}

TEST(StateDictTest, LimitsWhatIsLookedAtForEachUse) {
  const auto floats = storage("FloatStorage", 2);
  const auto tensor = [](const std::string& stored, const std::string& metadata) {
    return "ctorch._utils\n_rebuild_tensor_v2\n(" + stored + "I0\n(I2\nt(I1\ntI00\nN" + metadata +
           "tR";
  };
  const auto file = [](const std::string& name, const std::string& value) {
    return zip_with("(V" + name + "\n" + value + "d.", "abcdefgh");
  };
  const auto reads = [](const std::string& content) {
    return read_state_dict(bytes_of_text(content), "w").tensors.size() == 1;
  };
  const auto wrapped = [&](int times) {
    std::string value;
    for (int i = 0; i < times; ++i) value += "ctorch._utils\n_rebuild_parameter\n(";
    value += tensor(floats, "");
    for (int i = 0; i < times; ++i) value += "tR";
    return value;
  };
  EXPECT_TRUE(reads(file("a", wrapped(4))));
  expect_refused_state_dict(file("a", wrapped(5)),
                            "w: 'a': expected a tensor in at most 4 others, found more");

  EXPECT_TRUE(reads(file(std::string(4096, 'n'), tensor(floats, ""))));
  expect_refused_state_dict(
      file(std::string(4097, 'n'), tensor(floats, "")),
      "w: expected names of at most 4096 bytes, found 4097: '" + std::string(80, 'n'));

  const auto metadata = [](int entries) {
    std::string dict = "(";
    for (int i = 0; i < entries; ++i) dict += "VN\nI0\n";
    return dict + "d";
  };
  EXPECT_TRUE(reads(file("a", tensor(floats, metadata(32)))));
  expect_refused_state_dict(file("a", tensor(floats, metadata(33))),
                            "w: 'a': expected metadata of at most 32 entries, found 33");

  const auto keyed = [&](std::size_t bytes) {
    auto stored = floats;
    stored.replace(stored.find("V0\n"), 3, "V" + std::string(bytes, 'k') + "\n");
    return file("a", tensor(stored, ""));
  };
  expect_refused_state_dict(keyed(65),
                            "w: 'a': expected a storage with a key of at most 64 bytes, found 65");
  expect_refused_state_dict(keyed(64), "kkk");
}

TEST(StateDictTest, LetsTheLastOfANameWin) {
  const auto tensor = [](int offset) {
    return "ctorch._utils\n_rebuild_tensor_v2\n(" + storage("ByteStorage", 8) + "I" +
           std::to_string(offset) + "\n(I1\nt(I1\ntI00\nNtR";
  };
  const auto file = zip_with(
      "(Va\nq\x01" + tensor(1) + "Va\n" + tensor(2) + "h\x01" + tensor(3) + "d.", "abcdefgh");
  const auto set = read_state_dict(bytes_of_text(file), "w");
  EXPECT_EQ(text_of(set.tensors.at(0).bytes), "d");
}

TEST(StateDictTest, LimitsTheNamesOfTies) {
  // Each short name is tied to the same long one.
  std::string pickle = "(V" + std::string(4000, '+') + "\nctorch._utils\n_rebuild_tensor_v2\n(" +
                       storage("FloatStorage", 2) + "I0\n(I2\nt(I1\ntI00\nNtRq\x01";
  for (int i = 0; i < 2000; ++i) pickle += "V" + std::to_string(i) + "\nh\x01";
  expect_refused_state_dict(zip_with(pickle + "d.", "abcdefgh"),
                            "expected tied names in proportion to the file, found more than ");
}

TEST(StateDictTest, RefusesTensorsThatDoNotAddUp) {
  const auto expect = [](const std::string& arguments, const std::string& text) {
    expect_refused_state_dict(zip_with(dict_with("_rebuild_tensor_v2", arguments), "abcdefgh"),
                              text);
  };
  const auto floats = storage("FloatStorage", 2);
  expect(floats + "I1\n(I2\nt(I1\nt",
         "w: 'a': expected elements of a storage that has 2, found shape [2], strides [1] from "
         "element 1");
  expect(floats + "I-1\n(I2\nt(I1\nt", "from element -1");
  expect(floats + "I0\n(I2\nt(I1\nI1\nt", "strides [1, 1]");
  expect(floats + "I0\n(I9223372036854775807\nI9\nt(I0\nI0\nt", "expected elements of a storage");
  expect(floats + "I0\n(I4611686018427387904\nt(I0\nt", "shape [4611686018427387904], strides [0]");
  expect(storage("FloatStorage", 3) + "I0\n(I2\nt(I1\nt",
         "w: storage '0': expected 3 elements of 4 bytes, found 8 bytes");
  expect(storage("FloatStorage", -1) + "I0\n(t(t", "expected a storage, found one of -1 elements");
  expect(storage("ByteStorage", 8, "(Vv\nI9\nI1\nt") + "I0\n(I1\nt(I1\nt", "expected elements of");
  expect(storage("QInt8Storage", 8) + "I0\n(I1\nt(I1\nt", "found a 'torch.QInt8Storage'");
  expect("I0\nI0\n(t(t", "expected an object as part 0, found an integer");
  expect(floats, "expected an integer as part 1, found 1 parts");
  expect("(Vother\ntQI0\n(t(t", "w: 'a': expected a storage, found 'other'");
  expect("Vx\nQI0\n(t(t", "w: 'a': expected a storage, found an object of 'a persistent id'");
  expect("(Vstorage\nctorch.storage\nUntypedStorage\nV0\nVcpu\nI8\ntQI0\n(t(t",
         "expected a storage with a type, found one without");
  expect(floats + "I0\n(I1\nt(I1\ntI00\nN(Vneg\nI01\nd",
         "expected a plain tensor, found a view with its neg bit set");
  std::string many = "(";
  for (int i = 0; i < 65; ++i) many += "I1\n";
  expect(floats + "I0\n" + many + "t" + many + "t", "expected at most 64 dimensions, found 65");
  expect_refused_state_dict(
      zip_with("(I1\nNd.", ""),
      "w: expected names in UTF-8 as keys of the state dict, found an integer");
  expect_refused_state_dict(zip_with("(S'\\xff'\nNd.", ""), "as keys of the state dict, found '?'");
  expect_refused_state_dict(
      zip_with(dict_with("_rebuild_xla_tensor", "N"), ""),
      "expected a dense tensor, found an object of 'torch._utils._rebuild_xla_tensor'");
  expect_refused_state_dict(
      zip_with(dict_with("_rebuild_tensor_v3", floats + "I0\n(t(tI00\nNctorch\nfloat8\n"),
               "abcdefgh"),
      "expected a type that lockstep knows, found 'torch.float8'");
  expect_refused_state_dict(
      zip_with(dict_with("_rebuild_tensor_v3", floats + "I0\n(t(tI00\nNctorch\n\x1b[2J\n"),
               "abcdefgh"),
      "expected a type that lockstep knows, found 'torch.?[2J'");
}

TEST(StateDictTest, RefusesALegacyFileThatContradictsItself) {
  const auto file = read_file(weight_fixture("legacy.pt"));
  expect_refused_state_dict(file + "x",
                            "expected the end of the file after its last storage, found 1 more");
  auto damaged = file;
  damaged[18] = 'x';
  expect_refused_state_dict(damaged,
                            "w: at byte 17: expected version 1001 of PyTorch's old format, found ");
  damaged = file;
  damaged[damaged.find("\x88X")] = '\x89';
  expect_refused_state_dict(damaged, "expected little-endian numbers, found big-endian ones");
}

TEST(StateDictTest, LimitsWhatIsCopied) {
  // Many transposed views of one storage: each costs a copy of all of it.
  std::string pickle = "(";
  for (int i = 0; i < 2000; ++i) {
    pickle += "V" + std::to_string(i) + "\nctorch._utils\n_rebuild_tensor_v2\n(" +
              storage("ByteStorage", 100000) + "I" + std::to_string(i) +
              "\n(I300\nI300\nt(I1\nI301\nttR";
  }
  expect_refused_state_dict(zip_with(pickle + "d.", std::string(100000, 'x')),
                            "bytes in another order than row-major, found 90000");
}

}  // namespace
}  // namespace lockstep::weights

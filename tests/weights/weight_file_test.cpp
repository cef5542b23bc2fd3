#include "lockstep/weights/weight_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "lockstep/base/file.h"
#include "lockstep/weights/digest.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"
#include "tests/weights/made_tensors.h"

namespace lockstep::weights {
namespace {

using testing::expect_error;
using testing::ScratchFolder;
using testing::weight_fixture;

/// While it lives, no file of this process grows beyond so many bytes.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST(WeightFileTest, HasTheSameDigestInEveryFormat) {
  const ScratchFolder folder;
  const auto set = testing::every_torch_type();
  for (const auto* const name : {"w.safetensors", "w.pt", "w.pth"}) {
    const auto path = folder.path() + "/" + name;
    write_weights(path, set);
    const auto file = read_weights(path);
    EXPECT_EQ(file.digest(), digest_of(set)) << name;
    EXPECT_EQ(file.path(), path);
    EXPECT_EQ(file.ties().size() + file.possible_ties().size(), 2u);
    EXPECT_EQ(file.tensors().size(), set.tensors.size());
    EXPECT_NE(file.find("z.tail"), nullptr);
    // A file that was read can be written again, in the other format too.
    write_weights(folder.path() + "/again.safetensors", file.set());
    EXPECT_EQ(read_weights(folder.path() + "/again.safetensors").digest(), digest_of(set));
  }
}

TEST(WeightFileTest, GoesByContentNotByName) {
  const ScratchFolder folder;
  const auto path = folder.write("odd.safetensors", read_file(weight_fixture("legacy.pt")));
  EXPECT_EQ(read_weights(path).format(), WeightFormat::StateDict);
  const auto file = read_weights(weight_fixture("by_hand.safetensors"));
  EXPECT_EQ(name_of(file.format()), "safetensors");
  EXPECT_EQ(file.digest(), read_weights(path).digest());
  EXPECT_EQ(file.metadata().at("made by"), "hand");
  EXPECT_EQ(file.possible_ties().size(), 2u);
  EXPECT_EQ(name_of(read_weights(weight_fixture("zip.pt")).format()), "state dict");
}

TEST(WeightFileTest, SaysWhatAFileIsNot) {
  const ScratchFolder folder;
  const auto empty = folder.write("empty.pt", "");
  expect_error([&] { read_weights(empty); }, ErrorKind::Data,
               empty +
                   ": expected a safetensors file or a state dict of PyTorch, found an empty "
                   "file");
  const auto image = folder.write("w.pt", "\x89PNG\r\n\x1a\n and more");
  expect_error([&] { read_weights(image); }, ErrorKind::Data,
               "found one that begins with 89 50 4e 47 0d 0a 1a 0a");
  expect_error([&] { read_weights(folder.path() + "/none"); }, ErrorKind::Io,
               "/none: No such file or directory");
  expect_error([&] { read_weights(folder.path()); }, ErrorKind::Io,
               folder.path() + ": expected a file, found a folder");
}

TEST(WeightFileTest, ListsTheExtensionsThatItKnows) {
  expect_error([] { write_weights("weights.bin", {}); }, ErrorKind::Options,
               "weights.bin: expected a name that ends with .safetensors, .pt or .pth, found "
               "'.bin'");
  expect_error([] { format_for("weights"); }, ErrorKind::Options, "found no extension");
}

TEST(WeightFileTest, KeepsTheOldFileWhenTheNewOneDoesNotFit) {
  const ScratchFolder folder;
  TensorSet large;
  testing::add_tensor(large, "a", ElementType::U8, {100000}, std::string(100000, 'x'));
  for (const auto* const name : {"w.safetensors", "w.pt"}) {
    const auto path = folder.path() + "/" + name;
    write_weights(path, testing::every_torch_type());
    const auto before = read_file(path);
    {
      const FileSizeLimit limit(50000);
      expect_error([&] { write_weights(path, large); }, ErrorKind::Io, "File too large");
    }
    EXPECT_TRUE(read_file(path) == before);
    std::filesystem::remove(path);
    EXPECT_TRUE(folder.is_empty());
  }
}

TEST(WeightFileTest, KeepsItsBytesWhenTheFileIsReplaced) {
  const ScratchFolder folder;
  const auto path = folder.path() + "/w.safetensors";
  write_weights(path, testing::every_type());
  const auto file = read_weights(path);
  write_weights(path, {});
  EXPECT_EQ(file.digest(), digest_of(testing::every_type()));
  EXPECT_TRUE(read_weights(path).tensors().empty());
}

}  // namespace
}  // namespace lockstep::weights

#include "tests/data/made_files.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "lockstep/base/file.h"

namespace lockstep::testing {

std::string fixture(const std::string& name) {
  return read_file(std::string(FIXTURES) + "/" + name);
}

std::string gzip(std::string_view content) {
  z_stream stream{};
  ::deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string packed(::deflateBound(&stream, content.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

std::string tar(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string archive;
  for (const auto& [name, content] : files) {
    std::string header(512, '\0');
    const auto put = [&](std::size_t at, const std::string& text) {
      header.replace(at, text.size(), text);
    };
    put(0, name);
    put(100, "0000644");
    put(124, fmt::format("{:011o}", content.size()));
    put(136, "00000000000");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar");
    put(263, "00");
    unsigned sum = 0;
    for (const unsigned char byte : header) sum += byte;
    put(148, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
    archive += header + content + std::string((512 - content.size() % 512) % 512, '\0');
  }
  return archive + std::string(1024, '\0');
}

std::string idx(const std::vector<std::uint32_t>& shape, std::string_view elements) {
  std::string file{'\0', '\0', '\x08', static_cast<char>(shape.size())};
  for (const auto extent : shape) {
    for (const int shift : {24, 16, 8, 0}) file += static_cast<char>(extent >> shift);
  }
  return file + std::string(elements);
}

std::string pattern(std::size_t size, unsigned salt) {
  std::string bytes(size, '\0');
  unsigned state = salt * 2654435761u + 1;
  for (auto& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

Error thrown_by(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "expected an error, found none";
  return Error(ErrorKind::Bug, "");
}

void expect_data_error(const std::function<void()>& call, const std::vector<std::string>& parts) {
  const auto error = thrown_by(call);
  EXPECT_EQ(error.kind(), ErrorKind::Data) << error.what();
  for (const auto& part : parts) EXPECT_THAT(std::string(error.what()), ::testing::HasSubstr(part));
}

}  // namespace lockstep::testing

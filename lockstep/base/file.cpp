#include "lockstep/base/file.h"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <fstream>

#include "lockstep/base/error.h"

namespace lockstep {

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw io_error("pipe");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void open_missing_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // The lowest free number is taken, and those below are in use already.
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", O_RDWR);
  }
}

std::string read_file(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw io_error("read " + path);
  std::string content;
  std::array<char, 16384> block;
  while (true) {
    const auto count = ::read(file.get(), block.data(), block.size());
    if (count == 0) return content;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw io_error("read " + path);
    content.append(block.data(), static_cast<std::size_t>(count));
  }
}

void write_file(const std::string& path, std::string_view content) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
  file.close();
  if (!file) throw io_error("write " + path);
}

}  // namespace lockstep

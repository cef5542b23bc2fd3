#include "lockstep/comm/shared_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep::comm {

SharedMemory::SharedMemory(int fd, std::size_t offset, std::size_t bytes) : bytes_(bytes) {
  // Populated now: a first touch later would cost microseconds a page in the middle of training.
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
                      static_cast<off_t>(offset));
  if (data == MAP_FAILED) {
    throw Error(
        ErrorKind::Unavailable,
        fmt::format("shared memory: {} bytes cannot be mapped: {}", bytes, std::strerror(errno)),
        "check 'ulimit -v' and the memory of this machine");
  }
  data_ = std::shared_ptr<std::byte>(static_cast<std::byte*>(data),
                                     [bytes](std::byte* mapped) { ::munmap(mapped, bytes); });
}

}  // namespace lockstep::comm

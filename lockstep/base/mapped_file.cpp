#include "lockstep/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

namespace lockstep {

MappedFile::MappedFile(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) throw io_error(path);
  if (S_ISDIR(status.st_mode)) {
    throw Error(ErrorKind::Io, path + ": expected a file, found a folder",
                "name a file; of a checkpoint its weights.safetensors");
  }
  if (status.st_size == 0) return;  // an empty file cannot be mapped
  const auto size = static_cast<std::size_t>(status.st_size);
  const auto* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) throw io_error(path);
  bytes_ = {static_cast<const std::byte*>(memory), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace lockstep

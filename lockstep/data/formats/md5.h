#pragma once

#include <filesystem>
#include <string>

namespace lockstep::data {

/// The MD5 checksum of a file in hexadecimal, which is what data sets are published with. Throws
/// `Io`, naming the file.
std::string md5_of(const std::filesystem::path& file);

}  // namespace lockstep::data

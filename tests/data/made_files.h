#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::testing {

/// A file of the folder tests/data/fixtures.
std::string fixture(const std::string& name);

/// `content` as gzip packs it.
std::string gzip(std::string_view content);

/// A tar archive of files, written by hand so that the reader does not check itself.
std::string tar(const std::vector<std::pair<std::string, std::string>>& files);

/// An IDX file of unsigned bytes.
std::string idx(const std::vector<std::uint32_t>& shape, std::string_view elements);

/// Bytes that tell their places apart: `salt` and the index decide.
std::string pattern(std::size_t size, unsigned salt);

/// The error that a call throws; fails the test where it throws none, or another type.
Error thrown_by(const std::function<void()>& call);

/// Checks that a call throws `Data`, and that the message has all of the parts.
void expect_data_error(const std::function<void()>& call, const std::vector<std::string>& parts);

}  // namespace lockstep::testing

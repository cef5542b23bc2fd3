#pragma once

#include <string>

#include "lockstep/comm/mpi/join.h"

namespace lockstep::comm::mpi {

/// What the module liblockstep-mpi.so offers to the program that loads it. They share C++ types, so
/// both are of one build.
struct Module {
  const char* build;  ///< `build_name()` of the module, to be compared before `join` is called
  Joined (*join)(const Place& place, const WaitOptions& options);
};

/// Tells builds apart: version, the headers that both share, compiler and flags.
std::string build_name();

/// The one function that the module exports.
constexpr const char* kModuleFunction = "lockstep_mpi_module";
using ModuleFunction = const Module*();

}  // namespace lockstep::comm::mpi

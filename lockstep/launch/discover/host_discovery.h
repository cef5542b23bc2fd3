#pragma once

#include <string>
#include <vector>

#include "lockstep/topology/environment.h"
#include "lockstep/topology/host_list.h"
#include "lockstep/topology/identity.h"

namespace lockstep::launch {

/// This machine's own name.
std::string this_host();

/// As the job calls it, where its launcher has said.
std::string name_of_this_host(const topology::Identity& identity);

/// Whether two names mean the same machine, with or without a domain.
bool is_same_host(const std::string& a, const std::string& b);

/// Whether a name in a host list means this machine: its own name, with or without domain, or
/// localhost.
bool is_this_host(const std::string& name);

/// The same, where Slurm may have a name of its own for this machine.
bool is_this_host(const std::string& name, const topology::Environment& environment);

/// The machines of the job: from `--host`, from `--hostfile`, or this one alone.
/// Throws `Options` where both are given or one is malformed, `Io` where the file cannot be read.
std::vector<topology::Host> discover_hosts(const std::string& host_list,
                                           const std::string& hostfile);

}  // namespace lockstep::launch

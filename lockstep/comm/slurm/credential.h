#pragma once

#include <optional>
#include <string>
#include <string_view>

/// Messages that only processes of this user, on machines of this cluster, can write and read: with
/// munge, which every cluster that Slurm runs has.
namespace lockstep::comm::slurm {

/// Whether this build has munge.
bool has_credentials() noexcept;

/// Errors: `Unavailable` where there is no munge.
std::string seal(std::string_view message);

/// What was sealed; nothing where somebody else did it, or it is none, or was opened here before.
std::optional<std::string> open(const std::string& sealed);

}  // namespace lockstep::comm::slurm

#include <CLI/CLI.hpp>
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/cli/command.h"
#include "lockstep/comm/mpi/join.h"
#include "lockstep/launch/start/find_program.h"
#include "lockstep/monitor/export/environment_facts.h"
#include "lockstep/ui/table.h"

namespace lockstep::cli {
namespace {

/// A program, a library or a file that lockstep uses if it is installed.
struct OptionalPart {
  enum class Kind { Program, Library, File };
  const char* name;
  const char* used_for;
  Kind kind;
  const char* looked_for;
  const char* package;
};

constexpr std::array kOptionalParts{
    OptionalPart{"eu-stack", "stack of an instance that hangs", OptionalPart::Kind::Program,
                 "eu-stack", "elfutils"},
    OptionalPart{"Open MPI", "jobs that mpirun starts; comparison in bench launch and bench comm",
                 OptionalPart::Kind::Program, "mpirun", "openmpi-bin"},
    OptionalPart{"PyTorch for Python", "torch.distributed scripts under lockstep run",
                 OptionalPart::Kind::File, "/usr/lib/python3/dist-packages/torch/__init__.py",
                 "python3-torch"},
    OptionalPart{"torchvision for Python", "comparison in bench data", OptionalPart::Kind::File,
                 "/usr/lib/python3/dist-packages/torchvision/__init__.py", "python3-torchvision"},
    OptionalPart{"Fashion-MNIST", "the default dataset", OptionalPart::Kind::File,
                 "/usr/share/datasets/fashion-mnist", "dataset-fashion-mnist"},
    OptionalPart{"NVIDIA driver", "GPUs", OptionalPart::Kind::Library, "libcuda.so.1",
                 "nvidia-driver (non-free)"},
};

bool is_present(const OptionalPart& part, const topology::Environment& environment) {
  switch (part.kind) {
    case OptionalPart::Kind::Program:
      return launch::has_program(part.looked_for, environment);
    case OptionalPart::Kind::Library: {
      void* library = ::dlopen(part.looked_for, RTLD_LAZY);
      if (library != nullptr) ::dlclose(library);
      return library != nullptr;
    }
    case OptionalPart::Kind::File:
      return std::filesystem::exists(part.looked_for);
  }
  return false;
}

void print_fact_table(const char* heading, const std::vector<monitor::ReportFact>& facts) {
  ui::Table table({heading, ""});
  for (const auto& [name, value] : facts) table.add({name, value});
  fmt::print("{}\n", table.to_string());
}

void print_build() {
  auto facts = monitor::build_facts();
  facts.push_back({"MPI", comm::mpi::is_built() ? std::string(comm::mpi::library_version())
                                                : "no: configure with LOCKSTEP_WITH_MPI=ON"});
  print_fact_table("build", facts);
}

void print_optional_parts(const topology::Environment& environment) {
  ui::Table table({"optional part", "installed", "used for", "package"});
  for (const auto& part : kOptionalParts) {
    table.add(
        {part.name, is_present(part, environment) ? "yes" : "no", part.used_for, part.package});
  }
  fmt::print("{}", table.to_string());
}

}  // namespace

int doctor(const Invocation& invocation) {
  CLI::App app(
      "Shows the optional parts of the build and of the machine, and their Debian packages.",
      "doctor");
  set_usage(app, "doctor");
  if (parse(app, invocation.arguments) == Parsed::HelpShown) return 0;
  print_build();
  print_fact_table("machine", monitor::machine_facts());
  print_optional_parts(invocation.environment);
  return 0;
}

}  // namespace lockstep::cli

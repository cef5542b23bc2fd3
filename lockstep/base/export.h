#pragma once

// All of lockstep is compiled with hidden symbols. The shared libraries export what these macros mark, and nothing
// else. cmake/SharedLibraries.cmake writes their version scripts. Programs and tests of this tree link the objects,
// where the macros have no effect.

/// Marks a class or a function that programs use: only in the headers of lockstep/public_headers.txt.
#define LOCKSTEP_API __attribute__((visibility("default")))

/// Marks a class or a function of liblockstep that liblockstep-torch uses: only in other headers. The symbol gets a
/// version of its own, which changes with every release.
#define LOCKSTEP_PRIVATE_API __attribute__((visibility("default")))

#pragma once

// lockstep is compiled with hidden symbols. The shared libraries export the symbols that these
// macros mark, and no others: cmake/SharedLibraries.cmake writes the version scripts. Programs and
// tests of this tree link the objects, where the macros have no effect.

/// Exports a class or a function to programs. Only headers of lockstep/public_headers.txt use it.
#define LOCKSTEP_API [[gnu::visibility("default")]]

/// Exports a class or a function of liblockstep to liblockstep-torch, under a symbol version that
/// changes with every release. Only headers that are not public use it.
#define LOCKSTEP_PRIVATE_API [[gnu::visibility("default")]]

/// Keeps a class hidden that is declared within an exported one.
#define LOCKSTEP_INTERNAL [[gnu::visibility("hidden")]]

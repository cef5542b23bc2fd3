# cmake -D OUTPUT=<file> -D VERSION=<x.y.z> -D SOVERSION=<n> -D SOURCE_DIR=<tree> -D "HEADERS=<list>"
#       -P write_version_script.cmake
#
# Writes the version script of a shared library. Symbols that LOCKSTEP_API marks in the public HEADERS get the version
# LOCKSTEP_<n>. The other visible symbols of namespace lockstep are marked with LOCKSTEP_PRIVATE_API, in headers that
# are not public: they get the version LOCKSTEP_PRIVATE_<x.y.z>. All other symbols are local, for example templates of the
# C++ library that lockstep instantiates. If a name matches the patterns of both versions, linkers choose the later
# version.
cmake_minimum_required(VERSION 3.25)

# The patterns of a class: members, members of nested classes, tables, and thunks.
function(class_patterns class result)
  set(text "    ${class}::*;\n    *thunk?to?${class}::*;\n    guard?variable?for?${class}::*;\n")
  foreach(table IN ITEMS vtable VTT typeinfo typeinfo?name)
    string(APPEND text "    ${table}?for?${class};\n    ${table}?for?${class}::*;\n")
  endforeach()
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

# Reads the marks of a header. Requires the layout of clang-format.
function(read_marks header result)
  file(READ ${SOURCE_DIR}/${header} text)
  string(REGEX MATCHALL "[^A-Z_]LOCKSTEP_API " marks "${text}")
  list(LENGTH marks expected)
  string(REPLACE "[[nodiscard]] " "" text "${text}")
  string(REGEX REPLACE "\nnamespace [a-z_:0-9]+ {\n[^{}]*\n}\n" "\n" text "${text}")  # only declarations, never marked
  set(begin "\nnamespace [a-z_:0-9]+ {")
  set(end "\n}  // namespace")
  set(class "\n(class|struct) LOCKSTEP_API [A-Za-z_0-9]+")
  set(function "\nLOCKSTEP_API [^;({]*[ *&\n][A-Za-z_0-9]+\\(")
  string(REGEX MATCHALL "${begin}|${end}|${class}|${function}" lines "${text}")
  set(patterns "")
  set(scope "")
  set(found 0)
  foreach(line IN LISTS lines)
    if(line MATCHES "namespace ([a-z_:0-9]+) {")
      list(APPEND scope ${CMAKE_MATCH_1})
    elseif(line MATCHES "// namespace")
      list(POP_BACK scope)
    else()
      math(EXPR found "${found} + 1")
      list(JOIN scope "::" prefix)
      string(REGEX MATCH "([A-Za-z_0-9]+)(\\(?)$" ignored "${line}")
      if(CMAKE_MATCH_2)
        # What follows is "(", or "[abi:cxx11](" if the function returns a std::string.
        string(APPEND patterns "    ${prefix}::${CMAKE_MATCH_1}[!a-zA-Z0-9_]*;\n")
      else()
        class_patterns(${prefix}::${CMAKE_MATCH_1} of_class)
        string(APPEND patterns "${of_class}")
      endif()
    endif()
  endforeach()
  if(scope)
    message(FATAL_ERROR "${header}: expected the end of namespace ${scope}, as in '}  // namespace base'")
  endif()
  if(NOT found EQUAL expected)
    message(FATAL_ERROR "${header}: found ${expected} LOCKSTEP_API marks, but parsed only ${found}")
  endif()
  set(${result} "${patterns}" PARENT_SCOPE)
endfunction()

set(public "")
foreach(header IN LISTS HEADERS)
  if(NOT header STREQUAL lockstep/base/export.h)
    read_marks(${header} patterns)
    string(APPEND public "${patterns}")
  endif()
endforeach()
class_patterns(lockstep every)

file(WRITE ${OUTPUT} "# Written by cmake/write_version_script.cmake.
LOCKSTEP_PRIVATE_${VERSION} {
  global:
    extern \"C++\" {
${every}    };
};

LOCKSTEP_${SOVERSION} {
  global:
    extern \"C++\" {
${public}    };
  local:
    *;
};
")

# cmake -D OUTPUT=<source> -D "FILES=<path>=<file>;…" -P embed_page.cmake
#
# Writes a C++ source that holds the files of the dashboard's page, for lockstep/monitor/web/page_files.h.
cmake_minimum_required(VERSION 3.25)

set(html "text/html; charset=utf-8")
set(css "text/css; charset=utf-8")
set(js "text/javascript; charset=utf-8")
set(svg "image/svg+xml")

# A literal may hold 64 KiB, the least that compilers have to take; literals side by side are one.
function(to_literals text result)
  string(LENGTH "${text}" length)
  set(literals "")
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${text}" ${at} 16000 piece)
    string(APPEND literals "R\"lockstep_page(${piece})lockstep_page\"\n")
    math(EXPR at "${at} + 16000")
  endwhile()
  set(${result} "${literals}" PARENT_SCOPE)
endfunction()

set(entries "")
foreach(pair IN LISTS FILES)
  string(REGEX MATCH "^([^=]+)=(.+)$" matched "${pair}")
  set(path "${CMAKE_MATCH_1}")
  set(file "${CMAKE_MATCH_2}")
  string(REGEX REPLACE ".*[.]" "" extension "${file}")
  file(READ "${file}" content)
  # A map of sources would be asked for where it is not.
  string(REGEX REPLACE "//# sourceMappingURL=[^\n]*" "" content "${content}")
  to_literals("${content}" literals)
  string(APPEND entries "    {\"${path}\", \"${${extension}}\",\n${literals}},\n")
endforeach()

file(WRITE "${OUTPUT}" "// Made by cmake/embed_page.cmake.
#include \"lockstep/monitor/web/page_files.h\"

namespace lockstep::monitor {
namespace {

constexpr PageFile kFiles[] = {
${entries}};

}  // namespace

std::span<const PageFile> page_files() noexcept { return kFiles; }

}  // namespace lockstep::monitor
")

# cmake -D ROOT=<tree> -P check_includes.cmake
#
# Reads every source below ROOT/lockstep and ROOT/apps. Fails if a source includes a benchmark (bench/).
#
# Also fails if a source below ROOT/lockstep
#   - includes a module that LOCKSTEP_MODULES does not list before the module of the source,
#   - includes a header directly in lockstep/, or a path that does not begin at the root,
#   - includes libtorch outside nn and train,
#   - reads the environment outside topology, prints outside ui and cli, or exits outside cli.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/LockstepModules.cmake)

set(complaints "")

macro(complain what)
  string(APPEND complaints "  ${file}: ${what}\n")
endmacro()

# Reads a file into `text`, without its comments, and checks the rule for all product code.
macro(read_product_file)
  file(READ ${ROOT}/${file} text)
  string(REGEX REPLACE "//[^\n]*" "" text "\n${text}")
  if(text MATCHES "#include [<\"](\\.\\./)*bench/")
    complain("includes benchmarks, which are not part of the product")
  endif()
endmacro()

# keep_to("<modules>" <pattern>): only these modules may contain a match of the pattern. Its first group is reported.
macro(keep_to modules pattern)
  set(allowed ${modules})
  if(NOT module IN_LIST allowed AND text MATCHES "${pattern}")
    complain("contains '${CMAKE_MATCH_1}', which only these modules may contain: ${modules}")
  endif()
endmacro()

function(check_file file module)
  read_product_file()
  list(FIND LOCKSTEP_MODULES ${module} rank)
  string(REGEX MATCHALL "#include [<\"]lockstep/[a-z]+/" includes "${text}")
  foreach(include IN LISTS includes)
    string(REGEX REPLACE ".*lockstep/([a-z]+)/" "\\1" used "${include}")
    list(FIND LOCKSTEP_MODULES ${used} used_rank)
    if(used_rank EQUAL -1 OR used_rank GREATER rank)
      complain("includes '${used}', which '${module}' may not use")
    endif()
  endforeach()
  if(text MATCHES "#include [<\"]lockstep/[a-z_]+[.]h")
    complain("includes the umbrella header of the public API; include the header of the module instead")
  endif()
  string(REGEX MATCHALL "#include \"[^\"]*\"" quoted "${text}")
  foreach(include IN LISTS quoted)
    if(NOT include MATCHES "\"lockstep/")
      complain("${include} does not begin at the root of the repository")
    endif()
  endforeach()
  keep_to("nn;train" "#include [<\"]((torch|ATen|c10)/)")
  keep_to("gpu;nn;train;comm" "#include [<\"](cuda)")
  keep_to("topology" "[^a-z_]((secure_)?getenv|(un)?setenv|putenv|environ)[^a-z_]")
  keep_to("ui;cli" "[^a-z_](f?printf|f?puts|putchar|perror|fmt::print|std::cout|std::cerr|std::clog)[^a-z_]")
  keep_to("cli" "[^_a-z](exit|quick_exit)[(]")
  set(complaints "${complaints}" PARENT_SCOPE)
endfunction()

foreach(module IN LISTS LOCKSTEP_MODULES)
  file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/lockstep/${module}/*.h ${ROOT}/lockstep/${module}/*.cpp
       ${ROOT}/lockstep/${module}/*.cu ${ROOT}/lockstep/${module}/*.cuh)
  foreach(file IN LISTS files)
    check_file(${file} ${module})
  endforeach()
endforeach()

file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/apps/*.h ${ROOT}/apps/*.cpp ${ROOT}/lockstep/*.h)
foreach(file IN LISTS files)
  if(file MATCHES "^(apps/|lockstep/[^/]*$)")
    read_product_file()
  endif()
endforeach()

if(complaints)
  message(FATAL_ERROR "The rules for modules (cmake/LockstepModules.cmake) are broken:\n${complaints}")
endif()
message(STATUS "every source follows the rules for modules")

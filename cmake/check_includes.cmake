# cmake -D ROOT=<tree> -P check_includes.cmake
#
# Reads every source below ROOT/lockstep and ROOT/apps and complains about
#   - an #include of the benchmarks, bench/.
#
# Of the sources below ROOT/lockstep also complains about
#   - an #include of a module that does not stand before its own in LOCKSTEP_MODULES, of the header
#     for users, or of a path that does not begin at the root,
#   - torch headers outside nn and train,
#   - the environment being read outside topology, printing outside ui and cli, exiting outside cli.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/LockstepModules.cmake)

set(complaints "")

macro(complain what)
  string(APPEND complaints "  ${file}: ${what}\n")
endmacro()

# Reads a file into `text`, without its comments. Complains about includes that are wrong in all product code.
macro(read_product_file)
  file(READ ${ROOT}/${file} text)
  string(REGEX REPLACE "//[^\n]*" "" text "\n${text}")
  if(text MATCHES "#include [<\"](\\.\\./)*bench/")
    complain("includes benchmarks, which are not part of the product")
  endif()
endmacro()

# keep_to("<modules>" <pattern>): what the pattern's first group matches is for these modules only.
macro(keep_to modules pattern)
  set(allowed ${modules})
  if(NOT module IN_LIST allowed AND text MATCHES "${pattern}")
    complain("'${CMAKE_MATCH_1}' is for these modules only: ${modules}")
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
    complain("includes the header for users; name the module's own header instead")
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
  message(FATAL_ERROR "The module order is broken:\n${complaints}")
endif()
message(STATUS "every source keeps to the module order")

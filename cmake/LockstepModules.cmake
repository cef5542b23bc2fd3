# The modules of lockstep. A module may use only the modules before it in this list.
# check_includes.cmake enforces the same order on #include lines.
set(LOCKSTEP_MODULES
  base topology events comm launch data weights checkpoint optimizer gpu plan monitor nn train ui cli)

# lockstep_unity_groups(<target> [ACROSS_FOLDERS])
#
# Assigns the sources of a target to the batches of a unity build (CMAKE_UNITY_BUILD). A batch holds sources of one
# folder, so that a program that links a static library does not get code of folders that it does not use.
# ACROSS_FOLDERS ignores folders: a file that includes libtorch takes 4 s even with a precompiled header, so few batches
# matter more. An existing UNITY_GROUP is kept. CMake compiles sources with their own options alone.
set(LOCKSTEP_UNITY_BATCH 16 CACHE STRING "Largest number of sources that a unity build compiles at once")
function(lockstep_unity_groups target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "ACROSS_FOLDERS" "" "")
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  foreach(source IN LISTS sources)
    get_source_file_property(group ${source} UNITY_GROUP)
    if(group)
      continue()
    endif()
    set(folder "")
    if(NOT arg_ACROSS_FOLDERS)
      get_filename_component(folder ${source} DIRECTORY)
    endif()
    string(MAKE_C_IDENTIFIER "${target}_${folder}" group)
    math(EXPR ${group}_count "0${${group}_count} + 1")
    math(EXPR batch "(${${group}_count} - 1) / ${LOCKSTEP_UNITY_BATCH}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group}_${batch})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()

# lockstep_precompile(<target>)
#
# Lets a torch-free target use the precompiled header of lockstep_base. Only unity builds use it: in the preset `dev`
# each file is compiled alone, so that a missing #include is an error.
function(lockstep_precompile target)
  if(CMAKE_UNITY_BUILD AND NOT target STREQUAL "lockstep_base")
    target_precompile_headers(${target} REUSE_FROM lockstep_base)
  endif()
endfunction()

# Refuses a dependency that is not listed before `module` in LOCKSTEP_MODULES.
function(lockstep_check_dependency module dependency)
  string(REPLACE "lockstep::" "" used ${dependency})
  list(FIND LOCKSTEP_MODULES ${module} module_rank)
  list(FIND LOCKSTEP_MODULES ${used} used_rank)
  if(used_rank EQUAL -1)
    message(FATAL_ERROR "lockstep_module(${module}): '${dependency}' is not a module")
  elseif(NOT used_rank LESS module_rank)
    message(FATAL_ERROR "lockstep_module(${module}): may not depend on '${used}', which is "
                        "not listed before it in LOCKSTEP_MODULES")
  endif()
endfunction()

# lockstep_module(<name> [FOR_PROGRAMS] [WITH_TORCH] HEADERS … SOURCES … [DEPENDS lockstep::x …] [LIBRARIES …])
#
# Builds lockstep/<name> as the static library lockstep::<name>, or as a header-only library if it has no sources.
# DEPENDS names other modules, LIBRARIES names third-party targets. FOR_PROGRAMS: the module is part of the shared
# libraries that are installed for programs (SharedLibraries.cmake). WITH_TORCH: the module includes libtorch, and does
# not use the precompiled header of the torch-free modules.
function(lockstep_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "FOR_PROGRAMS;WITH_TORCH" "" "HEADERS;SOURCES;DEPENDS;LIBRARIES")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "lockstep_module(${name}): unknown argument '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT name IN_LIST LOCKSTEP_MODULES)
    message(FATAL_ERROR "lockstep_module: '${name}' is not one of: ${LOCKSTEP_MODULES}")
  endif()
  foreach(dependency IN LISTS arg_DEPENDS)
    lockstep_check_dependency(${name} ${dependency})
  endforeach()
  foreach(library IN LISTS arg_LIBRARIES)
    if(library MATCHES "lockstep")
      message(FATAL_ERROR "lockstep_module(${name}): '${library}' belongs under DEPENDS")
    endif()
  endforeach()

  set(target lockstep_${name})
  if(arg_SOURCES)
    set(scope PUBLIC)
    add_library(${target} STATIC ${arg_SOURCES} ${arg_HEADERS})
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:lockstep_build_flags>)
    if(arg_WITH_TORCH)
      lockstep_unity_groups(${target} ACROSS_FOLDERS)
      set_target_properties(${target} PROPERTIES JOB_POOL_COMPILE torch)
    else()
      lockstep_unity_groups(${target})
      lockstep_precompile(${target})
    endif()
  else()
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
  endif()
  add_library(lockstep::${name} ALIAS ${target})
  target_link_libraries(${target} ${scope} ${arg_DEPENDS} ${arg_LIBRARIES})
  target_include_directories(${target} ${scope} ${PROJECT_SOURCE_DIR})
  target_compile_features(${target} ${scope} cxx_std_20)

  if(arg_FOR_PROGRAMS)
    set_property(GLOBAL APPEND PROPERTY LOCKSTEP_MODULES_FOR_PROGRAMS ${name})
  endif()
endfunction()

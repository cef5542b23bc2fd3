# The modules of lockstep, in the order in which they may use each other: a module may depend on,
# and include from, only those before it. check_includes.cmake enforces the same order on #include lines.
set(LOCKSTEP_MODULES base topology events comm launch data weights checkpoint optimizer gpu plan monitor nn train ui cli)

# Refuses a dependency that does not stand before `module` in LOCKSTEP_MODULES.
function(lockstep_check_dependency module dependency)
  string(REPLACE "lockstep::" "" used ${dependency})
  list(FIND LOCKSTEP_MODULES ${module} module_rank)
  list(FIND LOCKSTEP_MODULES ${used} used_rank)
  if(used_rank EQUAL -1)
    message(FATAL_ERROR "lockstep_module(${module}): '${dependency}' is not a module")
  elseif(NOT used_rank LESS module_rank)
    message(FATAL_ERROR "lockstep_module(${module}): may not depend on '${used}', which stands "
                        "at or below it in LOCKSTEP_MODULES")
  endif()
endfunction()

# lockstep_module(<name> [FOR_PROGRAMS] HEADERS … SOURCES … [DEPENDS lockstep::x …] [LIBRARIES …])
#
# Builds lockstep/<name> as the static library lockstep::<name>, or as headers alone where it has no
# sources. DEPENDS names other modules, LIBRARIES third-party targets. FOR_PROGRAMS: the module is part of the shared
# libraries that are installed for programs (SharedLibraries.cmake); the package lockstep has a target for it.
function(lockstep_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "FOR_PROGRAMS" "" "HEADERS;SOURCES;DEPENDS;LIBRARIES")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "lockstep_module(${name}): what is '${arg_UNPARSED_ARGUMENTS}'?")
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
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON
      CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:lockstep_build_flags>)
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

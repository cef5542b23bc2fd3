# Functions that build test programs and hand their tests to CTest.
#
# A module has one test program per label, for example comm_fault_tests. CTest asks each program for its tests when
# `ctest` starts (discover.cmake), so a partial build and an edited test need no new configure step.

# In unity builds the subjects of a program are compiled in batches, so they must not use the same names.
set(LOCKSTEP_TEST_BATCH 8 CACHE STRING "Largest number of test files that a unity build compiles at once")

# lockstep_tests(<module> <label> SUBJECTS … [NAME name] [GRAIN case|suite|file] [TIMEOUT s] [TORCH]
#                [SOURCES …] [DEPENDS target…] [PROGRAMS target…] [DEFINITIONS …] [CONFIGURATION name])
#
# Builds the program <name>_tests from tests/<module>/<subject>_test.cpp of each subject and from SOURCES. A subject
# with a slash is relative to tests/. The default of NAME is <module>_<label>.
#
# GRAIN says what one test of CTest is: a test case, a suite, or the suites of one file. The default is one case for
# the labels process and fault, whose cases wait for processes and can run side by side, and one suite for all others.
# TORCH marks tests that use libtorch. Their grain is one file, because loading libtorch takes a second.
# PROGRAMS are programs that the tests start. The test program is not linked with them.
# CONFIGURATION hides the tests from a `ctest` that does not ask for it with --build-config.
function(lockstep_tests module label)
  cmake_parse_arguments(PARSE_ARGV 2 arg "TORCH" "NAME;GRAIN;TIMEOUT;CONFIGURATION"
                        "SUBJECTS;SOURCES;DEPENDS;PROGRAMS;DEFINITIONS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "lockstep_tests(${module} ${label}): unknown argument '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(arg_TORCH AND NOT LOCKSTEP_WITH_TORCH)
    return()
  endif()
  if(NOT arg_NAME)
    set(arg_NAME ${module}_${label})
  endif()
  set(starts_processes OFF)
  if(label MATCHES "^(process|fault|slow)$")
    set(starts_processes ON)
  endif()
  if(NOT arg_GRAIN)
    set(arg_GRAIN suite)
    if(arg_TORCH)
      set(arg_GRAIN file)
    elseif(starts_processes)
      set(arg_GRAIN case)
    endif()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()

  set(sources ${arg_SOURCES})
  foreach(subject IN LISTS arg_SUBJECTS)
    if(NOT subject MATCHES "/")
      set(subject ${module}/${subject})
    endif()
    list(APPEND sources ${LOCKSTEP_TESTS_FOLDER}/${subject}_test.cpp)
  endforeach()
  set(support lockstep_test_support)
  if(arg_TORCH)
    set(support lockstep_torch_test_support)
  endif()
  set(target ${arg_NAME}_tests)
  add_executable(${target} ${sources})
  target_link_libraries(${target} PRIVATE ${support} ${arg_DEPENDS})
  target_precompile_headers(${target} REUSE_FROM ${support})
  target_compile_definitions(${target} PRIVATE ${arg_DEFINITIONS})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${LOCKSTEP_TESTS_BINARY_FOLDER}
                                             UNITY_BUILD_BATCH_SIZE ${LOCKSTEP_TEST_BATCH})
  # Sources of the product may use the names of tests.
  set_source_files_properties(${arg_SOURCES} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(arg_TORCH)
    set_target_properties(${target} PROPERTIES JOB_POOL_COMPILE torch)
  endif()
  if(starts_processes)
    list(APPEND arg_PROGRAMS lockstep lockstep-data lockstep-dashboard hello load_data stubborn_tree comm_worker)
    if(LOCKSTEP_WITH_MPI)
      list(APPEND arg_PROGRAMS lockstep_mpi)
    endif()
  endif()
  if(arg_PROGRAMS)
    add_dependencies(${target} ${arg_PROGRAMS})
  endif()

  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_TEST_PROGRAMS ${arg_NAME})
  set_property(GLOBAL PROPERTY LOCKSTEP_TESTS_${arg_NAME} ${label} ${arg_GRAIN} "${arg_CONFIGURATION}")
  lockstep_test_rule(${arg_NAME} . LABELS ${label} TIMEOUT ${arg_TIMEOUT})
endfunction()

# lockstep_test_rule(<name> <regex> <property> <value> …)
#
# Gives CTest properties to the tests of <name>_tests whose names match <regex>. A later rule wins. A test is named
# <module>/<subject>, <module>/<subject>.<Suite> or <module>/<subject>.<Suite>.<Case>, by the grain of its program.
# `ctest` reports an error if a program has no test that matches. Rules of programs that are not built are skipped.
function(lockstep_test_rule name regex)
  if(NOT TARGET ${name}_tests)
    return()
  endif()
  string(REPLACE ";" " " properties "${ARGN}")
  set_property(GLOBAL APPEND_STRING PROPERTY LOCKSTEP_TEST_RULES_${name}
               "lockstep_rule([==[${regex}]==] [==[${properties}]==])\n")
endfunction()

# Writes, for each test program, the file that `ctest` includes to find its tests. Called once, after all tests.
function(lockstep_write_test_lists)
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${LOCKSTEP_TESTS_FOLDER}/discover.cmake)
  get_property(names GLOBAL PROPERTY LOCKSTEP_TEST_PROGRAMS)
  foreach(name IN LISTS names)
    get_property(facts GLOBAL PROPERTY LOCKSTEP_TESTS_${name})
    get_property(rules GLOBAL PROPERTY LOCKSTEP_TEST_RULES_${name})
    list(POP_FRONT facts label grain configuration)
    set(file ${LOCKSTEP_TESTS_BINARY_FOLDER}/lists/${name}.cmake)
    set(list ${LOCKSTEP_TESTS_BINARY_FOLDER}/lists/${name}_list.cmake)
    string(CONCAT text
      "set(lockstep_rules)\n${rules}"
      "lockstep_discover([==[$<TARGET_FILE:${name}_tests>]==] [==[${file}]==] [==[${list}]==] ${label} ${grain})\n"
      "include([==[${list}]==])\n")
    if(configuration)
      set(text "if(CTEST_CONFIGURATION_TYPE STREQUAL \"${configuration}\")\n${text}endif()\n")
    endif()
    file(GENERATE OUTPUT ${file} CONTENT "${text}")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${file})
  endforeach()
endfunction()

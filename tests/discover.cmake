# Included by `ctest` before it runs tests. Asks each test program for its tests and writes a list of `add_test`
# commands for them. A list is kept until the program, its rules or this file is newer.

cmake_policy(PUSH)
cmake_policy(VERSION 3.25)

set(LOCKSTEP_DISCOVER_FILE ${CMAKE_CURRENT_LIST_FILE})

# The end of the output of a test that is skipped as a whole. CTest looks for this before it looks at the exit code, so
# the output of a failure must not match.
set(LOCKSTEP_ALL_SKIPPED [==[\[  PASSED  \] 0 tests\.
\[  SKIPPED \] [0-9]+ tests?, listed below:(
\[  SKIPPED \] [^
]*)+
*$]==])

function(lockstep_rule regex properties)
  list(APPEND lockstep_rules "${regex}" "${properties}")
  set(lockstep_rules "${lockstep_rules}" PARENT_SCOPE)
endfunction()

# The suite that the source names: without the prefix of an instantiation and the number of a type.
function(lockstep_plain_suite suite result)
  string(REGEX REPLACE "/[0-9]+$" "" suite "${suite}")
  string(REGEX REPLACE "^.*/" "" suite "${suite}")
  set(${result} "${suite}" PARENT_SCOPE)
endfunction()

# Appends an add_test command with the properties of all rules that match its name.
macro(lockstep_add_entry name filter)
  list(APPEND names "${name}")
  set(properties "")
  set(rest "${lockstep_rules}")
  list(LENGTH rest left)
  while(left GREATER 1)
    list(POP_FRONT rest regex values)
    if("${name}" MATCHES "${regex}")
      string(APPEND properties " ${values}")
    endif()
    list(LENGTH rest left)
  endwhile()
  string(APPEND script "add_test([==[${name}]==] [==[${program}]==] [==[--gtest_filter=${filter}]==])\n"
                       "set_tests_properties([==[${name}]==] PROPERTIES${properties}"
                       " SKIP_REGULAR_EXPRESSION [==[${LOCKSTEP_ALL_SKIPPED}]==])\n")
endmacro()

# Fails if a rule matches none of the names: its test has been renamed or removed.
function(lockstep_check_rules program_name names)
  while(lockstep_rules)
    list(POP_FRONT lockstep_rules regex values)
    set(matching ${names})
    list(FILTER matching INCLUDE REGEX "${regex}")
    if(NOT matching)
      message(FATAL_ERROR "${program_name} has no test that matches '${regex}', to which a lockstep_test_rule gives "
                          "${values}.\nCorrect the rule, or build ${program_name} if the test is new.")
    endif()
  endwhile()
endfunction()

function(lockstep_discover program rules_file list label grain)
  get_filename_component(program_name "${program}" NAME)
  if(NOT EXISTS "${program}")
    file(WRITE "${list}" "add_test(${program_name}_NOT_BUILT \"${program}\")\n"
                         "set_tests_properties(${program_name}_NOT_BUILT PROPERTIES LABELS ${label})\n")
    return()
  endif()
  if(EXISTS "${list}" AND NOT "${program}" IS_NEWER_THAN "${list}" AND NOT "${rules_file}" IS_NEWER_THAN "${list}"
     AND NOT "${LOCKSTEP_DISCOVER_FILE}" IS_NEWER_THAN "${list}")
    return()
  endif()
  execute_process(COMMAND "${program}" --gtest_list_tests "--gtest_output=json:${list}.json"
                  OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${program} --gtest_list_tests ended with ${result}:\n${output}")
  endif()
  # The lines of a suite and of each of its cases: "name", and below it "tests" for a suite or "file" for a case.
  file(STRINGS "${list}.json" lines REGEX "^ *\"(name|tests|file)\": ")
  file(REMOVE "${list}.json")
  set(script "")
  set(names "")
  set(keys "")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^ *\"([a-z]+)\": \"?([^\",]*)" line "${line}")
    set(value "${CMAKE_MATCH_2}")
    if(CMAKE_MATCH_1 STREQUAL "name")
      string(REPLACE "\\/" "/" name "${value}")
    elseif(CMAKE_MATCH_1 STREQUAL "tests")
      set(suite "${name}")
    else()
      string(REPLACE "\\/" "/" file "${value}")
      string(REGEX MATCH "([^/]+/[^/]+)_test\\.cpp$" subject "${file}")
      set(subject "${CMAKE_MATCH_1}")
      if(grain STREQUAL "case")
        lockstep_add_entry("${subject}.${suite}.${name}" "${suite}.${name}")
        continue()
      endif()
      lockstep_plain_suite("${suite}" plain)
      set(key "${subject}")
      if(grain STREQUAL "suite")
        set(key "${subject}.${plain}")
      endif()
      string(MAKE_C_IDENTIFIER "${key}" id)
      list(APPEND keys "${key}")
      list(APPEND suites_${id} "${plain}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES keys)
  foreach(key IN LISTS keys)
    string(MAKE_C_IDENTIFIER "${key}" id)
    list(REMOVE_DUPLICATES suites_${id})
    set(filters "")
    foreach(suite IN LISTS suites_${id})
      list(APPEND filters "${suite}.*" "*/${suite}.*" "${suite}/*.*")
    endforeach()
    list(JOIN filters ":" filters)
    lockstep_add_entry("${key}" "${filters}")
  endforeach()
  lockstep_check_rules(${program_name} "${names}")
  file(WRITE "${list}" "${script}")
endfunction()

cmake_policy(POP)

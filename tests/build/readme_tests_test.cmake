# cmake -D SOURCE_DIR=<tree> -P readme_tests_test.cmake
#
# Every test that the README names is there: what it claims beside others is shown by one.
cmake_minimum_required(VERSION 3.25)

file(READ ${SOURCE_DIR}/README.md text)
string(REGEX MATCHALL "`tests/[^`]*`" names "${text}")
list(REMOVE_DUPLICATES names)
list(LENGTH names count)
if(count LESS 15)
  message(FATAL_ERROR "expected the tests of the README's table, found ${count}")
endif()
set(missing "")
foreach(name IN LISTS names)
  string(REPLACE "`" "" file "${name}")
  if(NOT EXISTS ${SOURCE_DIR}/${file} OR IS_DIRECTORY ${SOURCE_DIR}/${file})
    string(APPEND missing "  ${file}\n")
  endif()
endforeach()
if(missing)
  message(FATAL_ERROR "README.md names tests that there are not:\n${missing}")
endif()

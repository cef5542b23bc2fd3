# cmake -D SOURCE_DIR=<tree> -P migrate_names_test.cmake
#
# Every name of ours in docs/migrate.md, the code in the last column of its tables, is one that there
# is: in a header, or for flags in the command line's sources.
cmake_minimum_required(VERSION 3.25)

set(others  # names of libtorch, of the language, and of the reader's own program
  torch optim SGD pt load safetensors net fn f x make input values op batch buffer buffers variables strategy scope
  replica world model optimizer options loader set data epoch epochs instances path auto int for a b e_ head layer3
  main train run plan lockstep sink cache core numa none auto mpi run1 names Epoch init_process_group wait lr)

file(GLOB_RECURSE headers ${SOURCE_DIR}/lockstep/*.h)
file(GLOB sources ${SOURCE_DIR}/lockstep/cli/*.cpp)
set(known "")
foreach(file IN LISTS headers sources)
  file(READ ${file} text)
  string(REGEX REPLACE "//[^\n]*" "" text "${text}")
  string(REGEX MATCHALL "--?[a-z][a-z0-9-]*|[A-Za-z_][A-Za-z0-9_]*" words "${text}")
  list(APPEND known ${words})
  list(REMOVE_DUPLICATES known)
endforeach()

file(STRINGS ${SOURCE_DIR}/docs/migrate.md lines REGEX "^\\| .* \\| .* \\|$")
list(LENGTH lines count)
if(count LESS 80)
  message(FATAL_ERROR "expected the tables of docs/migrate.md, found ${count} rows")
endif()
set(missing "")
foreach(line IN LISTS lines)
  string(REGEX REPLACE "^.* \\| (.*) \\|$" "\\1" cell "${line}")
  string(REGEX MATCHALL "`[^`]*`" pieces "${cell}")
  foreach(piece IN LISTS pieces)
    string(REGEX REPLACE "\"[^\"]*\"" "" code "${piece}")
    string(REGEX MATCHALL "--[a-z][a-z0-9-]*|[A-Za-z_][A-Za-z0-9_]*" words "${code}")
    foreach(word IN LISTS words)
      if(NOT word IN_LIST known AND NOT word IN_LIST others)
        string(APPEND missing "  ${word}, in ${piece}\n")
      endif()
    endforeach()
  endforeach()
endforeach()
if(missing)
  message(FATAL_ERROR "docs/migrate.md has names that there are not:\n${missing}")
endif()
